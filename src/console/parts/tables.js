import { refusal, withQuery } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";
import { to } from "../lib/router.js";
import { Act } from "./form.js";
import { Table } from "./page.js";
import { Sparkline } from "./pictures.js";
import { Badge, firstLine, plain, QueueLink, stateOf, Text, Time } from "./text.js";

/** @param {any} task */
const target = task => task.queue ?? (task.exchange ? `${task.exchange} / ${task.routing_key ?? ""}` : null);

/** @param {any} task */
function what(task) {
  const { type, first } = firstLine(task.error_type, task.last_error);
  if (!first) return html`<span class="faint">${task.kind === "delay" ? "a delay" : "no error"}</span>`;
  return html`<span title=${plain(task.last_error).slice(0, 1000)}
    >${type && html`<b><${Text} value=${type} /></b> `}<${Text} value=${first} most=${300}
  /></span>`;
}

/**
 * @param {{ tasks: any[], without?: string[], chosen?: Set<string>, choose?: (id: string, on: boolean) => void, chooseAll?: (on: boolean) => void, busy?: boolean }} props
 */
export function TaskTable({ tasks, without = [], chosen, choose, chooseAll, busy }) {
  const all = chosen && tasks.length > 0 && tasks.every(task => chosen.has(task.retry_id));
  /** @type {(import("./page.js").Column & { name: string })[]} */
  const columns = [
    {
      name: "choose",
      label: "",
      head: html`<input
        type="checkbox"
        aria-label="Choose all on this page"
        checked=${all}
        onChange=${(/** @type {any} */ e) => chooseAll?.(e.target.checked)}
      />`,
      cell: task =>
        html`<input
          type="checkbox"
          aria-label="Choose task ${task.retry_id}"
          checked=${chosen?.has(task.retry_id)}
          onChange=${(/** @type {any} */ e) => choose?.(task.retry_id, e.target.checked)}
        />`,
    },
    {
      name: "task",
      label: "Task",
      cell: task => html`<a data-row class="id" href=${to("tasks", task.retry_id)}>${task.retry_id}</a>`,
    },
    {
      name: "state",
      label: "State",
      cell: task =>
        html`<${Badge}
            is=${stateOf(task)}
          />${task.body_stored ? null : html` <span class="badge amber">no body</span>`}`,
    },
    { name: "queue", label: "Queue", cell: task => html`<${Text} value=${target(task)} />` },
    { name: "error", label: "Last error", wide: true, cell: what },
    {
      name: "level",
      label: "Level",
      num: true,
      cell: task => html`${task.level}<span class="faint"> of ${task.levels}</span>`,
    },
    {
      name: "message_id",
      label: "Message-id",
      cell: task =>
        html`<span class="clip" title=${plain(task.message_id)}><${Text} value=${task.message_id} most=${60} /></span>`,
    },
    {
      name: "when",
      label: "Due, or ended",
      cell: task => html`<${Time} at=${task.next_due_at ?? task.finished_at ?? task.created_at} />`,
    },
  ];
  const shown = columns.filter(column => !without.includes(column.name) && (column.name !== "choose" || choose));
  return html`<${Table}
    label="Tasks"
    columns=${shown}
    rows=${tasks}
    busy=${busy}
    id=${(/** @type {any} */ t) => t.retry_id}
    marked=${(/** @type {any} */ t) => !!chosen?.has(t.retry_id)}
  />`;
}

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
  /** @type {import("./page.js").Column[]} */
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

/** What differs, of what was before and after. @param {any} change */
export function differences(change) {
  const before = change.before ?? {};
  const after = change.after ?? {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter(name => stringify(before[name] ?? null) !== stringify(after[name] ?? null))
    .map(name => ({ name, before: before[name], after: after[name] }));
}

/** @param {any} value */
const short = value =>
  value === null || value === undefined ? "–" : typeof value === "object" ? stringify(value) : String(value);

/** @param {{ change: any }} props */
export function Changed({ change }) {
  const all = differences(change).filter(({ name }) => name !== "version" && name !== "body_sha256");
  if (!all.length) return html`<span class="faint">–</span>`;
  return html`<span class="changed">
    ${all
      .slice(0, 4)
      .map(
        ({ name, before, after }) =>
          html`<span
            ><span class="faint">${name.replaceAll("_", " ")}</span> <${Text} value=${short(before)} most=${60} /> →
            <${Text} value=${short(after)} most=${60}
          /></span>`,
      )}
    ${all.length > 4 && html`<span class="faint">and ${all.length - 4} more</span>`}
  </span>`;
}

/** @param {{ rows: any[], withTask?: boolean, busy?: boolean }} props */
export function AuditTable({ rows, withTask = true, busy }) {
  /** @type {import("./page.js").Column[]} */
  const columns = [
    { label: "When", cell: change => html`<${Time} at=${change.at} />` },
    { label: "Who", cell: change => html`<${Text} value=${change.who} />` },
    { label: "What", cell: change => html`<b><${Text} value=${change.what} /></b>` },
    ...(withTask
      ? [
          {
            label: "Task",
            cell: (/** @type {any} */ change) =>
              change.retry_id
                ? html`<a data-row class="id" href=${to("tasks", change.retry_id)}>${change.retry_id}</a>`
                : change.after?.tasks
                  ? html`<a data-row href="${to("audit")}?bulk=${change.bulk_id}"
                      >${plural(change.after.tasks, "task")}</a
                    >`
                  : html`<${Text} value=${change.queue} />`,
          },
        ]
      : []),
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
  return html`<${Table}
    label="Audit"
    columns=${columns}
    rows=${rows}
    id=${(/** @type {any} */ c) => c.audit_id}
    busy=${busy}
  />`;
}
