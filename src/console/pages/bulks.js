import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { to } from "../lib/router.js";
import { BULK_ACTIONS } from "../lib/filter.js";
import { count, percent } from "../lib/format.js";
import { Badge } from "../parts/badge.js";
import { Empty } from "../parts/empty.js";
import { Value } from "../parts/filter_chips.js";
import { Page } from "../parts/page.js";
import { Pager } from "../parts/pager.js";
import { Table } from "../parts/table.js";
import { Text } from "../parts/text.js";
import { Time } from "../parts/time.js";

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    label: "Bulk",
    cell: bulk =>
      html`<a data-row href=${to("bulks", bulk.id)}>${bulk.id}: ${BULK_ACTIONS[bulk.action]?.label ?? bulk.action}</a>`,
  },
  {
    label: "State",
    cell: bulk =>
      html`<${Badge} is=${bulk.state} label=${bulk.state === "paused" && bulk.done === 0 ? "frozen" : undefined} />`,
  },
  { label: "Tasks", num: true, cell: bulk => count(bulk.total) },
  {
    label: "Done",
    num: true,
    cell: bulk =>
      html`${count(bulk.done)} <span class="faint">${percent(bulk.total ? bulk.done / bulk.total : 1)}</span>`,
  },
  {
    label: "Filter",
    wide: true,
    cell: bulk =>
      html`${Object.entries(bulk.filter).map(([name, value], i) => html`${i ? ", " : ""}<span class="faint">${name.replaceAll("_", " ")}</span> <${Value} name=${name} value=${value} />`)}`,
  },
  { label: "By", cell: bulk => html`<span class="clip"><${Text} value=${bulk.who} /></span>` },
  { label: "Created", cell: bulk => html`<${Time} at=${bulk.created_at} />` },
];

/** @param {{ query: URLSearchParams }} props */
export function Bulks({ query }) {
  const loaded = useData(withQuery("/v1/bulks", { limit: 50, cursor: query.get("cursor") }));
  const { data, stale, reload } = loaded;
  useChanges(changes => changes.bulks?.length || changes.more, reload);
  return html`<${Page} title="Bulks" of=${loaded}>
    <p class="lead">One action on many tasks. They run in the sidecars, also when nobody looks.</p>
    ${
      data &&
      (data.bulks.length
        ? html`<${Table}
              label="Bulks"
              columns=${COLUMNS}
              rows=${data.bulks}
              id=${(/** @type {any} */ b) => b.id}
              busy=${stale}
            />
            <${Pager} query=${query} next=${data.next} shown=${data.bulks.length} what="bulk" />`
        : html`<${Empty} title="No bulk yet.">
            <p>
              Choose a <a href="/console/causes">cause</a> and redrive its parked tasks, or filter
              <a href="/console/tasks">tasks</a> and act on all that match.
            </p>
          <//>`)
    }
  <//>`;
}
