import { html } from "../lib/html.js";
import { plural } from "../lib/format.js";
import { stringify } from "../lib/json.js";
import { to } from "../lib/router.js";
import { Table } from "./table.js";
import { Text } from "./text.js";
import { Time } from "./time.js";

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
  /** @type {import("./table.js").Column[]} */
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
