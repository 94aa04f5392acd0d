import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { withQuery } from "../lib/api.js";
import { refusal } from "../lib/session.js";
import { count } from "../lib/format.js";
import { firstLine, plain } from "../lib/text.js";
import { Act } from "./act.js";
import { Badge } from "./badge.js";
import { Sparkline } from "./sparkline.js";
import { Table } from "./table.js";
import { QueueLink, Text } from "./text.js";
import { Time } from "./time.js";

/** Where a redrive of a cause begins. @param {any} cause @param {string} [action] */
export const actOn = (cause, action = "redrive") =>
  withQuery("/console/act", { action, queue: cause.queue, cause: cause.cause_id });

/** @param {{ cause: any }} props */
export function CauseName({ cause }) {
  const { type, first } = firstLine(cause.error_type, cause.sample);
  return html`<a data-row href=${to("causes", cause.cause_id)} class="cause-name" title=${plain(cause.sample)}>
    ${type && html`<b><${Text} value=${type} /></b> `}<span><${Text} value=${first || cause.cause_id} /></span>
  </a>`;
}

/** @param {{ causes: any[], brief?: boolean, busy?: boolean }} props */
export function CauseTable({ causes, brief, busy }) {
  /** @type {import("./table.js").Column[]} */
  const columns = [
    { label: "Error", wide: true, cell: cause => html`<${CauseName} cause=${cause} />` },
    { label: "Queue", cell: cause => html`<${QueueLink} queue=${cause.queue} />` },
    { label: "Last hour", num: true, cell: cause => html`${count(cause.last_hour)}${trend(cause)}` },
    ...(brief ? [] : [{ label: "Under way", num: true, cell: (/** @type {any} */ cause) => count(cause.scheduled) }]),
    { label: "Parked", num: true, cell: cause => html`<b>${count(cause.parked)}</b>` },
    ...(brief ? [] : [{ label: "Succeeded", num: true, cell: (/** @type {any} */ cause) => count(cause.succeeded) }]),
    { label: "Last", cell: cause => html`<${Time} at=${cause.last_seen} />` },
    {
      label: "State",
      cell: cause =>
        html`<${Badge}
            is=${cause.state}
          />${cause.worse_at ? html` <span class="badge red">got worse</span>` : null}${cause.owner ? html` <${Text} value=${cause.owner} />` : null}`,
    },
    {
      label: "",
      cell: cause =>
        cause.parked > 0
          ? html`<${Act}
              class="small"
              href=${actOn(cause)}
              why=${refusal("redrive", cause.queue)}
              label="Redrive ${count(cause.parked)} tasks of ${plain(cause.error_type ?? cause.cause_id)}"
            >
              Redrive ${count(cause.parked)}
            <//>`
          : null,
    },
  ];
  return html`<${Table}
    label="Causes"
    columns=${columns}
    rows=${causes}
    id=${(/** @type {any} */ c) => c.cause_id}
    busy=${busy}
  />`;
}

/** @param {any} cause */
const trend = cause =>
  Array.isArray(cause.trend) && cause.trend.length > 1
    ? html` <${Sparkline}
        values=${cause.trend}
        tone="red"
        label="Failures by 5 minutes of the last hour: ${cause.trend.join(", ")}"
      />`
    : null;
