import { getAll } from "../lib/api.js";
import { count, duration, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";
import { useData } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { Copy, Empty, Facts, Page, Section, Table } from "../parts/page.js";
import { LadderPicture } from "../parts/pictures.js";
import { rowsOf, RuleList } from "../parts/rules.js";
import { Badge, Text, Time } from "../parts/text.js";

const SHARDS = 64;

/** @param {{ query: URLSearchParams }} props */
export function Nodes({ query }) {
  const all = query.get("all") === "true";
  const loaded = useData(`/v1/nodes ${all}`, {
    read: (_, options) => getAll("/v1/nodes", "nodes", options, { all }),
    on: () => true,
    every: 3000,
  });
  const { data } = loaded;
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
        ["Address", node.address],
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
    ${Array.from({ length: SHARDS }, (_, i) => html`<rect class=${mine.has(i) ? "blue" : ""} x=${i * 5} width="4" height="12" rx="1"><title>shard ${i}</title></rect>`)}
  </svg>`;
}

/** @type {import("../parts/page.js").Column[]} */
const TAGS = [
  { label: "Tag", cell: tag => html`<${Text} value=${tag.name} />` },
  { label: "Queue", cell: tag => html`<${Text} value=${tag.queue} />` },
  { label: "Ladder", cell: tag => html`<${Text} value=${tag.ladder} />` },
];

export function Config() {
  const loaded = useData("/v1/config");
  const { data } = loaded;
  return html`<${Page}
    title="Config"
    of=${loaded}
    actions=${data && html`<${Copy} text=${stringify(data, 2)} label="Copy as JSON" />`}
  >
    <p class="lead">
      What this sidecar works by, without secrets. It is changed in its file, and read again at a reload.
    </p>
    ${data && html`<${Parts} data=${data} />`}
  <//>`;
}

/** @param {string} title @param {any[]} all @param {(one: any) => any} view @param {(one: any) => any} [more] behind its name */
const cards = (title, all, view, more) =>
  html`<${Section} title=${title}>
    <div class="grid cards">
      ${all.map(
        one =>
          html`<article class="card">
            <h3><${Text} value=${one.name} /> ${more?.(one)}</h3>
            ${view(one)}
          </article>`,
      )}
    </div>
  <//>`;

/** @param {any} ladder */
const levels = ladder =>
  html`<small
    >${ladder.delays_ms.length}
    levels${ladder.jitter ? `, each up to ${Math.round(ladder.jitter * 100)} % longer` : ""}</small
  >`;

/** @param {{ data: any }} props */
const Parts = ({ data }) =>
  html`<${Facts}
      rows=${[
        ["Version", data.version],
        ["Fingerprint", data.fingerprint && html`<code>${data.fingerprint}</code>`],
        ["Error queues", data.error_queues?.length > 0 && data.error_queues.join(", ")],
      ]}
    />
    ${cards("Ladders", data.ladders, ladder => html`<${LadderPicture} ladder=${ladder} />`, levels)}
    ${cards("Queues", [...data.queues, { ...data.defaults, name: "(any other)" }], queue => html`<${Facts} rows=${rowsOf(queue)} />`)}
    ${data.rules.length > 0 && cards("Rules", data.rules, list => html`<${RuleList} rules=${list.rules} />`)}
    ${data.tags?.length > 0 && html`<${Section} title="Tags"><${Table} label="Tags" columns=${TAGS} rows=${data.tags} id="name" /><//>`}`;
