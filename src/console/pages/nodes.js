import { html } from "../lib/html.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { getAll } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
import { duration } from "../lib/time.js";
import { Badge } from "../parts/badge.js";
import { Empty } from "../parts/empty.js";
import { Facts, Page } from "../parts/page.js";
import { Text } from "../parts/text.js";
import { Time } from "../parts/time.js";

const SHARDS = 64;

/** @param {{ query: URLSearchParams }} props */
export function Nodes({ query }) {
  const all = query.get("all") === "true";
  const loaded = useData(`/v1/nodes ${all}`, (_, options) => getAll("/v1/nodes", "nodes", options, { all }));
  const { data, reload } = loaded;
  useChanges(() => true, reload, 3000);
  return html`<${Page} title="Nodes" of=${loaded}>
    <p class="lead">
      The sidecars that share this database. Each owns some of the ${SHARDS} shards; if one goes away, the others take
      its shards.
    </p>
    ${
      data?.unowned.shards.length > 0 &&
      html`<div class="problem" role="alert">
        <p>
          <strong>${plural(data.unowned.shards.length, "shard")} without a sidecar</strong>,
          ${count(data.unowned.overdue)} overdue. Start a sidecar.
        </p>
      </div>`
    }
    ${data && !data.nodes.length && html`<${Empty} title="No sidecar has ever run." command="rung run -c rung.yaml" />`}
    ${data && html`<div class="grid cards">${data.nodes.map((/** @type {any} */ node) => html`<${Node} key=${node.node} node=${node} />`)}</div>`}
    ${
      data?.not_shown > 0 &&
      !all &&
      html`<p>
        <button type="button" onClick=${() => setQuery({ all: "true" })}>
          Show ${plural(data.not_shown, "instance")} that ended over a day ago
        </button>
      </p>`
    }
  <//>`;
}

/** @param {{ node: any }} props */
function Node({ node }) {
  return html`<article class="card">
    <h2><${Text} value=${node.node} /> <${Badge} is=${node.state} /></h2>
    ${node.problems.map(
      (/** @type {any} */ problem) =>
        html`<p class="warn">
          <b>${problem.name}</b> <${Text} value=${problem.detail} />
          <span class="faint">since <${Time} at=${problem.since} /></span>
        </p>`,
    )}
    <${Shards} owned=${node.shards} />
    <${Facts}
      rows=${[
        ["Shards", `${node.shards.length} of ${SHARDS}`],
        [
          "Overdue",
          count(node.overdue) + (node.oldest_overdue_ms ? `, the oldest by ${duration(node.oldest_overdue_ms)}` : ""),
        ],
        ["Version", node.version],
        [
          "Config",
          html`<code>${node.config ?? "–"}</code
            >${node.config_differs ? html` <span class="badge amber">differs from most</span>` : null}`,
        ],
        ["Address", html`<${Text} value=${node.address} />`],
        ["Seen", html`<${Time} at=${node.seen_at} />`],
        ["Started", html`<${Time} at=${node.started_at} />`],
      ]}
    />
  </article>`;
}

/** @param {{ owned: number[] }} props */
function Shards({ owned }) {
  const mine = new Set(owned);
  return html`<svg
    class="shards"
    viewBox="0 0 ${SHARDS * 5} 12"
    preserveAspectRatio="none"
    role="img"
    aria-label="It owns ${owned.length} of ${SHARDS} shards"
  >
    ${Array.from({ length: SHARDS }, (_, i) => html`<rect class=${mine.has(i) ? "mine" : ""} x=${i * 5} width="4" height="12" rx="1"><title>shard ${i}</title></rect>`)}
  </svg>`;
}
