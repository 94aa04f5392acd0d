// Tasks: the address is the filter. An action is on some, on all of this page, or on all that match; its button says how many.
import { useEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { navigate, setQuery } from "../lib/router.js";
import { fromQuery } from "../lib/filter.js";
import { Empty } from "../parts/empty.js";
import { Choice } from "../parts/field.js";
import { FilterChips } from "../parts/filter_chips.js";
import { Page } from "../parts/page.js";
import { Pager } from "../parts/pager.js";
import { Selection } from "../parts/selection.js";
import { TaskFilter } from "../parts/task_filter.js";
import { TaskTable } from "../parts/task_table.js";

const SORTS = /** @type {[string, string][]} */ ([
  ["newest", "Newest"],
  ["oldest", "Oldest"],
  ["due", "Next due"],
]);

/** @param {{ query: URLSearchParams }} props */
export function Tasks({ query }) {
  const filter = fromQuery(query);
  const sort = query.get("sort") ?? "newest";
  const limit = ["25", "50", "100", "500"].includes(query.get("limit") ?? "") ? query.get("limit") : "50";
  const path = withQuery("/v1/tasks", { ...filter, sort, limit, cursor: query.get("cursor") });
  const loaded = useData(path);
  const { data, stale, reload } = loaded;
  const counted = useData(withQuery("/v1/tasks", { ...filter, count: true }));
  const [chosen, setChosen] = useState(/** @type {Map<string, any>} */ (new Map()));
  const filterText = JSON.stringify(filter);
  useEffect(() => setChosen(new Map()), [filterText]);
  const shown = /** @type {any[]} */ (data?.tasks ?? []);
  useChanges(() => true, reload, 2000);
  const choose = (/** @type {string[]} */ ids, /** @type {boolean} */ on) => {
    const next = new Map(chosen);
    for (const id of ids) {
      const task = shown.find(one => one.retry_id === id);
      if (on && task) next.set(id, task);
      else next.delete(id);
    }
    setChosen(next);
  };
  const fresh = new Map([...chosen].map(([id, task]) => [id, shown.find(one => one.retry_id === id) ?? task]));
  const any = Object.keys(filter).length > 0;
  return html`<${Page} title="Tasks" of=${loaded}>
    <${TaskFilter} filter=${filter} key=${filterText} />
    <${FilterChips}
      filter=${filter}
      remove=${(/** @type {string} */ name) => setQuery({ [name]: null, cursor: null })}
    />
    <div class="row between head">
      <${Selection}
        filter=${filter}
        chosen=${fresh}
        onClear=${() => setChosen(new Map())}
        onDone=${() => (setChosen(new Map()), reload())}
      />
      <${Choice}
        label="Order"
        options=${SORTS}
        value=${sort}
        choose=${(/** @type {string} */ key) => setQuery({ sort: key === "newest" ? null : key, cursor: null })}
      />
    </div>
    ${
      data &&
      (shown.length
        ? html`<${TaskTable}
              tasks=${shown}
              busy=${stale}
              chosen=${new Set(chosen.keys())}
              choose=${(/** @type {string} */ id, /** @type {boolean} */ on) => choose([id], on)}
              chooseAll=${(/** @type {boolean} */ on) =>
                choose(
                  shown.map(task => task.retry_id),
                  on,
                )}
            />
            <${Pager} query=${query} next=${data.next} shown=${shown.length} what="task" counted=${counted.data} />`
        : any
          ? html`<${Empty} title="No task matches.">
              <p><button type="button" onClick=${() => navigate("/console/tasks")}>Remove the filter</button></p>
            <//>`
          : html`<${Empty} title="No task yet." command="rung attach QUEUE">
              <p>
                Attach a queue: what its consumers reject becomes a task, and is sent again. Or submit a delayed
                message:
              </p>
              <p class="command"><code>rung submit --queue QUEUE --delay 5m --body '{"hello": "world"}'</code></p>
            <//>`)
    }
  <//>`;
}
