import { withQuery } from "../lib/api.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { to } from "../lib/router.js";
import { Field, useAddress } from "../parts/form.js";
import { Empty, Page, Pager } from "../parts/page.js";
import { AuditTable } from "../parts/tables.js";

// As AuditAction of the API.
const WHAT = "abort cancel discard edit failed finish fire pause redrive resume reschedule succeeded".split(" ");

/** @param {{ query: URLSearchParams }} props */
export function Audit({ query }) {
  const [queue, action, who, bulk] = ["queue", "action", "who", "bulk"].map(name => query.get(name));
  const path = withQuery("/v1/audit", { queue, action, who, bulk, limit: 50, cursor: query.get("cursor") });
  const loaded = useData(path, { on: () => true, every: 3000 });
  const { data, stale } = loaded;
  const rows = data?.audit ?? [];
  return html`<${Page} title="Audit" of=${loaded}>
    <p class="lead">
      ${
        bulk
          ? html`What bulk <a href=${to("bulks", bulk)}>${bulk}</a> did to each task.
              <a href=${to("audit")}>All changes</a>`
          : "Who changed what, and why."
      }
    </p>
    <div class="filters grid">
      <${Field} label="Queue" ...${useAddress(query, "queue")} />
      <${Field} label="Action" options=${[["", "any"], ...WHAT]} ...${useAddress(query, "action")} />
      <${Field} label="Who" ...${useAddress(query, "who")} />
    </div>
    ${
      data &&
      // A page looks at so many changes: it may have none of those that are asked for, and there are more.
      (rows.length || data.next
        ? html`<${AuditTable} rows=${rows} busy=${stale} />
            <${Pager} query=${query} next=${data.next} shown=${rows.length} what="change" />`
        : html`<${Empty} title="No change by hand${queue || action || who || bulk ? " matches" : " yet"}.">
            <p>Each redrive, edit, cancel, discard and pause is kept here, with who did it and the reason.</p>
          <//>`)
    }
  <//>`;
}
