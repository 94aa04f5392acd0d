// A queue that is held: what is sent to it waits.
import { useRef } from "preact/hooks";
import { withQuery } from "../lib/api.js";
import { held } from "../lib/figures.js";
import { count, now, percent } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { to } from "../lib/router.js";
import { Sparkline } from "./pictures.js";
import { Badge, ErrorText, QueueLink, Text, Time } from "./text.js";

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
  const path = queue ? `/v1/queues/${encodeURIComponent(queue)}` : null;
  const { data } = useData(path, { on: changes => changes.queues, every: 2000 });
  return html`<${HeldBy} gate=${data && held(data) ? data : null} />`;
}

const STATES = /** @type {[string, string, string][]} */ ([
  ["parked", "Parked", "red"],
  ["scheduled", "Scheduled", "blue"],
  ["awaiting", "Awaiting an answer", "violet"],
  ["succeeded", "Succeeded", "green"],
]);

/**
 * How many tasks are in which state, of all queues or of one; `more` are shares.
 * @param {{ totals: Record<string, number>, overdue: number, queue?: string, more?: [string, string][] }} props
 */
export const Totals = ({ totals, overdue, queue, more = [] }) =>
  html`<ul class="grid totals">
    ${STATES.map(([state, label, tone]) => figure(totals[state] ?? 0, label, tone, { queue, state }))}
    ${figure(overdue, "Overdue", "amber", { queue, state: "scheduled", sort: "due" })}
    ${more.map(
      ([value, label]) =>
        html`<li>
          <span><b>${value}</b><span>${label}</span></span>
        </li>`,
    )}
  </ul>`;

/** @param {number} n @param {string} label @param {string} tone @param {Record<string, any>} filter */
const figure = (n, label, tone, filter) =>
  html`<li>
    <a href=${withQuery("/console/tasks", filter)}><b class=${n ? tone : ""}>${count(n)}</b><span>${label}</span></a>
  </li>`;

/** The last hour of a queue. @param {string} queue */
export function useLastHour(queue) {
  const from = useRef(new Date(now() - 36e5).toISOString());
  const { data } = useData(withQuery("/v1/activity", { queue, from: from.current }));
  // A queue that the config does not know is counted together with others: that says nothing about it.
  const points = /** @type {any[]} */ (data?.aggregated_as ? [] : (data?.points ?? []));
  const sum = (/** @type {string} */ key) => points.reduce((all, p) => all + (p[key] ?? 0), 0);
  const failed = sum("failed");
  const succeeded = sum("succeeded");
  return {
    failures: points.map(p => p.failed ?? 0),
    failed,
    succeeded,
    rate: failed + succeeded ? succeeded / (failed + succeeded) : null,
  };
}

/** @param {{ queue: any }} props */
export function QueueTile({ queue }) {
  const hour = useLastHour(queue.queue);
  return html`<a class="card tile" data-row href=${to("queues", queue.queue)}>
    <span class="row between"
      ><b><${Text} value=${queue.queue} /></b> <${Badge} is=${queue.state}
    /></span>
    <${Sparkline} values=${hour.failures} tone="red" label="${hour.failed} failures in the last hour" />
    <span class="figures">
      <span><b class=${queue.tasks.parked ? "red" : ""}>${count(queue.tasks.parked ?? 0)}</b> parked</span>
      <span><b>${count(queue.waiting)}</b> waiting</span>
      <span><b>${count(queue.dueSoon)}</b> due in 1 min</span>
      <span><b>${percent(hour.rate)}</b> succeed</span>
      ${queue.share !== null && html`<span><b>${percent(queue.share)}</b> on time</span>`}
      ${queue.overdue > 0 && html`<span class="amber"><b>${count(queue.overdue)}</b> overdue, <${Time} at=${queue.next_due_at} /></span>`}
    </span>
  </a>`;
}
