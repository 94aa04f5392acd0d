import { withQuery } from "../lib/api.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { setQuery, to } from "../lib/router.js";
import { Field } from "../parts/form.js";
import { Empty, Page, Pager } from "../parts/page.js";
import { AuditTable } from "../parts/tables.js";

// As AuditAction of the API.
const ACTIONS = [
  "abort",
  "cancel",
  "discard",
  "edit",
  "failed",
  "finish",
  "fire",
  "pause",
  "redrive",
  "resume",
  "reschedule",
  "succeeded",
];

/** @param {{ query: URLSearchParams }} props */
export function Audit({ query }) {
  const asked = {
    queue: query.get("queue"),
    action: query.get("action"),
    who: query.get("who"),
    bulk: query.get("bulk"),
  };
  const path = withQuery("/v1/audit", { ...asked, limit: 50, cursor: query.get("cursor") });
  const loaded = useData(path, { on: () => true, every: 3000 });
  const { data, stale } = loaded;
  const rows = data?.audit ?? [];
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    setQuery({ [name]: value.trim(), cursor: null });
  return html`<${Page} title="Audit" of=${loaded}>
    <p class="lead">
      ${
        asked.bulk
          ? html`What bulk <a href=${to("bulks", asked.bulk)}>${asked.bulk}</a> did to each task.
              <a href=${to("audit")}>All changes</a>`
          : "Who changed what, and why."
      }
    </p>
    <div class="filters grid">
      <${Field} label="Queue" value=${asked.queue ?? ""} onChange=${set("queue")} />
      <${Field}
        label="Action"
        value=${asked.action ?? ""}
        onInput=${set("action")}
        options=${[["", "any"], ...ACTIONS]}
      />
      <${Field} label="Who" value=${asked.who ?? ""} onChange=${set("who")} />
    </div>
    ${
      data &&
      // A page looks at so many changes: it may have none of those that are asked for, and there are more.
      (rows.length || data.next_cursor
        ? html`<${AuditTable} rows=${rows} busy=${stale} />
            <${Pager} query=${query} next=${data.next_cursor} shown=${rows.length} what="change" />`
        : html`<${Empty} title="No change by hand${Object.values(asked).some(Boolean) ? " matches" : " yet"}.">
            <p>Each redrive, edit, cancel, discard and pause is kept here, with who did it and the reason.</p>
          <//>`)
    }
  <//>`;
}
