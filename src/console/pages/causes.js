import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { CauseTable } from "../parts/cause_table.js";
import { Empty } from "../parts/empty.js";
import { Check, Field } from "../parts/field.js";
import { Page } from "../parts/page.js";
import { Pager } from "../parts/pager.js";

const SHOWN = /** @type {[string, string][]} */ ([
  ["", "all states"],
  ["new,regressed", "new or regressed"],
  ["new", "new"],
  ["known", "known"],
  ["working", "working"],
  ["ignored", "ignored"],
  ["resolved", "resolved"],
  ["regressed", "regressed"],
]);

/** @param {{ query: URLSearchParams }} props */
export function Causes({ query }) {
  const all = query.get("all") === "true";
  const path = withQuery("/v1/causes", {
    queue: query.get("queue"),
    state: query.get("state"),
    with_tasks: !all,
    limit: 50,
    cursor: query.get("cursor"),
  });
  const loaded = useData(path);
  const { data, stale, reload } = loaded;
  useChanges(changes => changes.causes || changes.more, reload, 2000);
  const filtered = query.get("queue") || query.get("state") || query.get("cursor");
  return html`<${Page} title="Causes" of=${loaded}>
    <p class="lead">Failures with the same error are one cause. Mend it, then send its parked tasks again.</p>
    <div class="filters grid">
      <${Field}
        label="Queue"
        value=${query.get("queue") ?? ""}
        onInput=${() => {}}
        onChange=${(/** @type {string} */ v) => setQuery({ queue: v.trim(), cursor: null })}
      />
      <${Field}
        label="State"
        options=${SHOWN}
        value=${query.get("state") ?? ""}
        onInput=${(/** @type {string} */ v) => setQuery({ state: v, cursor: null })}
      />
      <${Check}
        checked=${all}
        onChange=${(/** @type {boolean} */ on) => setQuery({ all: on ? "true" : null, cursor: null })}
        >also without tasks<//
      >
    </div>
    ${
      data &&
      (data.causes.length
        ? html`<${CauseTable} causes=${data.causes} busy=${stale} />
            <${Pager} query=${query} next=${data.next} shown=${data.causes.length} what="cause" />`
        : filtered
          ? html`<${Empty} title="No cause matches."
              ><p><a href="/console/causes">Show all</a></p><//
            >`
          : html`<${Empty} title="Nothing fails." command="rung attach QUEUE">
              <p>A cause appears here when a message of an attached queue fails. To attach a queue:</p>
            <//>`)
    }
  <//>`;
}
