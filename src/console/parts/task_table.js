import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { firstLine, plain } from "../lib/text.js";
import { Badge, stateOf } from "./badge.js";
import { Table } from "./table.js";
import { Text } from "./text.js";
import { Time } from "./time.js";

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
  /** @type {(import("./table.js").Column & { name: string })[]} */
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
