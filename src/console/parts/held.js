// A queue that is held: what is sent to it waits.
import { html } from "../lib/html.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { held } from "../lib/queues.js";
import { Badge } from "./badge.js";
import { ErrorText, QueueLink } from "./text.js";
import { Time } from "./time.js";

/** @param {{ gate: any }} props */
export const HeldBy = ({ gate }) =>
  gate &&
  html`<div class="warn">
    <${Badge} is=${gate.state} /> The queue <${QueueLink} queue=${gate.queue} /> is
    held${gate.until ? html` until <${Time} at=${gate.until} full />` : gate.state === "paused" ? " until it is resumed" : null}${gate.reason ? html`: <${ErrorText} value=${gate.reason} />` : null}.
    What is sent waits for it.
  </div>`;

/** Says so where something is sent. @param {{ queue: string | null | undefined }} props */
export function Held({ queue }) {
  const { data, reload } = useData(queue ? `/v1/queues/${encodeURIComponent(queue)}` : null);
  useChanges(changes => changes.queues || changes.more, reload, 2000);
  return html`<${HeldBy} gate=${data && held(data) ? data : null} />`;
}
