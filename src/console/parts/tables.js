// The tables that several pages have: tasks, causes, changes by hand.
import { refusal, withQuery } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";
import { to } from "../lib/router.js";
import { Act } from "./form.js";
import { Table } from "./page.js";
import { Sparkline } from "./pictures.js";
import { Badge, firstLine, plain, QueueLink, stateOf, Text, Time } from "./text.js";

/** @typedef {import("./page.js").Column} Column */

/** An error in one line, its type first. @param {string | null} type @param {string | null} error @param {string} [otherwise] */
function errorLine(type, error, otherwise) {
  const { type: own, first } = firstLine(type, error);
  return html`${own && html`<b><${Text} value=${own} /></b> `}<span
      ><${Text} value=${first || otherwise} most=${300}
    /></span>`;
}

/** @type {Column[]} */
const TASK = [
  { label: "Task", cell: task => html`<a data-row class="id" href=${to("tasks", task.retry_id)}>${task.retry_id}</a>` },
  {
    label: "State",
    cell: task =>
      html`<${Badge}
          is=${stateOf(task)}
        />${task.body_stored ? null : html` <span class="badge amber">no body</span>`}`,
  },
  {
    label: "Queue",
    cell: task =>
      html`<${Text} value=${task.queue ?? (task.exchange && `${task.exchange} / ${task.routing_key ?? ""}`)} />`,
  },
  {
    label: "Last error",
    wide: true,
    cell: task =>
      task.last_error
        ? html`<span title=${plain(task.last_error).slice(0, 1000)}
            >${errorLine(task.error_type, task.last_error)}</span
          >`
        : html`<span class="faint">${task.kind === "delay" ? "a delay" : "no error"}</span>`,
  },
  { label: "Level", num: true, cell: task => html`${task.level}<span class="faint"> of ${task.levels}</span>` },
  {
    label: "Message-id",
    cell: task =>
      html`<span class="clip" title=${plain(task.message_id)}><${Text} value=${task.message_id} most=${60} /></span>`,
  },
  {
    label: "Due, or ended",
    cell: task => html`<${Time} at=${task.next_due_at ?? task.finished_at ?? task.created_at} />`,
  },
];

/** @param {{ tasks: any[], without?: string[], chosen?: Map<string, any>, choose?: (tasks: any[], on: boolean) => void, busy?: boolean }} props */
export function TaskTable({ tasks, without, chosen, choose, busy }) {
  const box = (/** @type {string} */ label, /** @type {any[]} */ of) =>
    html`<input
      type="checkbox"
      aria-label=${label}
      checked=${of.every(task => chosen?.has(task.retry_id))}
      onChange=${(/** @type {any} */ e) => choose?.(of, e.target.checked)}
    />`;
  const first = {
    label: "",
    head: box("Choose all on this page", tasks),
    cell: (/** @type {any} */ task) => box(`Choose task ${task.retry_id}`, [task]),
  };
  return html`<${Table}
    label="Tasks"
    columns=${choose ? [first, ...TASK] : TASK}
    without=${without}
    rows=${tasks}
    id="retry_id"
    busy=${busy}
    marked=${chosen}
  />`;
}

/** Where a redrive of a cause begins. @param {any} cause @param {string} [action] */
export const actOn = (cause, action = "redrive") =>
  withQuery("/console/act", { action, queue: cause.queue, cause: cause.cause_id });

/** @type {Column[]} */
const CAUSE = [
  {
    label: "Error",
    wide: true,
    cell: cause =>
      html`<a data-row href=${to("causes", cause.cause_id)} class="cause-name" title=${plain(cause.sample)}>
        ${errorLine(cause.error_type, cause.sample, cause.cause_id)}
      </a>`,
  },
  { label: "Queue", cell: cause => html`<${QueueLink} queue=${cause.queue} />` },
  {
    label: "Last hour",
    num: true,
    cell: cause =>
      html`${count(cause.last_hour)}
        <${Sparkline}
          values=${cause.trend}
          tone="red"
          label="Failures by 5 minutes of the last hour: ${cause.trend.join(", ")}"
        />`,
  },
  { label: "Under way", num: true, cell: cause => count(cause.scheduled) },
  { label: "Parked", num: true, cell: cause => html`<b>${count(cause.parked)}</b>` },
  { label: "Succeeded", num: true, cell: cause => count(cause.succeeded) },
  { label: "Last", cell: cause => html`<${Time} at=${cause.last_seen} />` },
  {
    label: "State",
    cell: cause =>
      html`<${Badge}
          is=${cause.state}
        />${cause.worse_at && html` <span class="badge red">got worse</span>`}${cause.owner && html` <${Text} value=${cause.owner} />`}`,
  },
  {
    label: "",
    cell: cause =>
      cause.parked > 0 &&
      html`<${Act}
        class="small"
        href=${actOn(cause)}
        why=${refusal("redrive", cause.queue)}
        label="Redrive ${count(cause.parked)} tasks of ${plain(cause.error_type ?? cause.cause_id)}"
      >
        Redrive ${count(cause.parked)}
      <//>`,
  },
];

/** @param {{ causes: any[], brief?: boolean, busy?: boolean }} props */
export const CauseTable = ({ causes, brief, busy }) =>
  html`<${Table}
    label="Causes"
    columns=${CAUSE}
    without=${brief ? ["Under way", "Succeeded"] : []}
    rows=${causes}
    id="cause_id"
    busy=${busy}
  />`;

/** @param {any} value */
const short = value =>
  value === null || value === undefined ? "–" : typeof value === "object" ? stringify(value) : String(value);

/** What differs, of what was before and after. @param {{ change: any }} props */
export function Changed({ change }) {
  const before = change.before ?? {};
  const after = change.after ?? {};
  const names = Object.keys({ ...before, ...after }).filter(
    name => name !== "version" && name !== "body_sha256" && short(before[name]) !== short(after[name]),
  );
  if (!names.length) return html`<span class="faint">–</span>`;
  return html`<span class="changed">
    ${names
      .slice(0, 4)
      .map(
        name =>
          html`<span
            ><span class="faint">${name.replaceAll("_", " ")}</span>
            <${Text} value=${short(before[name])} most=${60} /> → <${Text} value=${short(after[name])} most=${60}
          /></span>`,
      )}
    ${names.length > 4 && html`<span class="faint">and ${names.length - 4} more</span>`}
  </span>`;
}

/** @param {any} change */
function whatChanged(change) {
  if (change.retry_id) return html`<a data-row class="id" href=${to("tasks", change.retry_id)}>${change.retry_id}</a>`;
  if (!change.after?.tasks) return html`<${Text} value=${change.queue} />`;
  return html`<a data-row href="${to("audit")}?bulk=${change.bulk_id}">${plural(change.after.tasks, "task")}</a>`;
}

/** @type {Column[]} */
const AUDIT = [
  { label: "When", cell: change => html`<${Time} at=${change.at} />` },
  { label: "Who", cell: change => html`<${Text} value=${change.who} />` },
  { label: "What", cell: change => html`<b><${Text} value=${change.what} /></b>` },
  { label: "Task", cell: whatChanged },
  {
    label: "Bulk",
    cell: change =>
      change.bulk_id
        ? html`<a href=${to("bulks", change.bulk_id)}>${change.bulk_id}</a>`
        : html`<span class="faint">–</span>`,
  },
  { label: "Reason", cell: change => html`<${Text} value=${change.reason} />` },
  { label: "Change", wide: true, cell: change => html`<${Changed} change=${change} />` },
];

/** @param {{ rows: any[], without?: string[], busy?: boolean }} props */
export const AuditTable = ({ rows, without, busy }) =>
  html`<${Table} label="Audit" columns=${AUDIT} without=${without} rows=${rows} id="audit_id" busy=${busy} />`;
