// What needs a person first; then each queue; then how it went.
import { useContext, useEffect } from "preact/hooks";
import { get, getAll, withQuery } from "../lib/api.js";
import { atPlace, Figures, held, together } from "../lib/figures.js";
import { count, duration, now, percent, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { to } from "../lib/router.js";
import { History } from "../parts/chart.js";
import { Empty, Loading, Page, Section } from "../parts/page.js";
import { QueueTile, Totals } from "../parts/queues.js";
import { CauseTable } from "../parts/tables.js";
import { Badge, ErrorText, QueueLink, Text, Time } from "../parts/text.js";

const MOST_TILES = 12;

/** @param {string} _ @param {{ signal: AbortSignal }} options */
async function readRest(_, options) {
  const soon = new Date(now() + 60000).toISOString();
  const causes = (/** @type {string} */ state) => get(`/v1/causes?state=${state}&with_tasks=true&limit=6`, options);
  const [fresh, owned, nodes, due] = await Promise.all([
    causes("new,regressed"),
    causes("working"),
    getAll("/v1/nodes", "nodes", options),
    get(withQuery("/v1/tasks", { state: "scheduled", due_before: soon, count: true, by: "queue" }), options),
  ]);
  return {
    causes: [...fresh.causes, ...owned.causes],
    moreCauses: fresh.next || owned.next,
    nodes,
    due: due.groups ?? [],
  };
}

/** @param {{ query: URLSearchParams }} props */
export function Overview({ query }) {
  const figures = useContext(Figures);
  const rest = useData("rest", { read: readRest, on: () => true, every: 2500 });
  const reload = async () => void (await Promise.all([figures.reload(), rest.reload()]));
  useEffect(() => {
    // Without live updates they are of when another page was opened.
    if (figures.data) figures.reload();
  }, []);
  const stats = figures.data;
  const data = rest.data;
  const loaded = { ...rest, error: rest.error ?? figures.error, reload };
  if (!data) return html`<${Page} title="Overview" of=${loaded} />`;
  // What needs a person is there at once; a million tasks are counted for a second.
  const queues = stats ? together(stats, stats.queues, data.due) : [];
  const nothing = stats && Object.keys(stats.totals).length === 0;
  return html`<${Page} title="Overview" of=${loaded}>
    ${stats ? html`<${Totals} totals=${stats.totals} overdue=${stats.overdue} />` : html`<${Loading} />`}
    ${
      nothing
        ? html`<${Empty} title="No messages yet." command="rung attach QUEUE">
            <p>Attach a queue: from then on, what its consumers reject comes here, and is sent again.</p>
          <//>`
        : html`<${Attention} data=${{ ...data, stats }} queues=${queues} />`
    }
    ${
      queues.length > 0 &&
      html`<${Section}
        title="Queues"
        actions=${queues.length > MOST_TILES && html`<a class="button small" href="/console/queues">All ${queues.length}</a>`}
      >
        <div class="grid cards">
          ${[...queues]
            .sort(atPlace)
            .slice(0, MOST_TILES)
            .map(queue => html`<${QueueTile} key=${queue.queue} queue=${queue} />`)}
        </div>
      <//>`
    }
    <${History} query=${query} />
  <//>`;
}

const MOST_HELD = 20;

/** What needs a person, the worst first. Without `stats` while tasks are being counted. @param {{ data: any, queues: any[] }} props */
function Attention({ data, queues }) {
  const { stats, nodes, causes } = data;
  /** @type {any[]} */
  const rows = [];
  const row = (/** @type {string} */ is, /** @type {any} */ what, /** @type {string} */ label = "") =>
    rows.push(html`<li class="row"><${Badge} is=${is} label=${label} /> <span>${what}</span></li>`);
  const all = /** @type {any[]} */ (nodes.nodes);
  const live = all.filter(node => node.state === "live");
  for (const node of all.filter(node => node.state === "dead"))
    row("dead", html`Sidecar ${nodeLink(node)} has been away since <${Time} at=${node.seen_at} />`);
  for (const node of live)
    for (const { name, detail } of node.problems)
      row("failed", html`${nodeLink(node)}: <${Text} value=${detail} />`, name);
  for (const node of live.filter(node => node.config_differs))
    row("paused", html`${nodeLink(node)} has another config than the others`, "config differs");
  const { shards, overdue } = nodes.unowned;
  if (shards.length) {
    const link = html`<a href="/console/nodes">${plural(shards.length, "shard")}</a>`;
    row("failed", html`${link} without a sidecar, ${count(overdue)} overdue`, "unowned");
  }
  if (stats?.overdue_beyond_bound > 0) {
    const oldest = html`<a href=${to("tasks", stats.oldest_overdue_id ?? "")} class="id"
      >${stats.oldest_overdue_id}</a
    >`;
    const by = duration(stats.oldest_overdue_ms ?? 0);
    row(
      "failed",
      html`${plural(stats.overdue_beyond_bound, "task")} later than they may be; the oldest, ${oldest}, by ${by}`,
      "late",
    );
  }
  const hold = queues.filter(held);
  for (const { queue, state, waiting, reason, until } of hold.slice(0, MOST_HELD)) {
    const why = html`${reason && html`: <${ErrorText} value=${reason} />`}${until && html`, until <${Time} at=${until} />`}`;
    row(state, html`<${QueueLink} queue=${queue} /> is held, ${count(waiting)} wait${why}`);
  }
  if (hold.length > MOST_HELD)
    row("paused", html`<a href="/console/queues">${count(hold.length - MOST_HELD)} more queues</a> are held`, "held");
  for (const { queue, last_hour } of stats?.late_by ?? [])
    if ((last_hour.share ?? 1) < 0.999)
      row(
        "timed_out",
        html`<${QueueLink} queue=${queue} />: ${percent(last_hour.share)} on time in the last hour`,
        "late against its promise",
      );
  const parked = stats?.totals.parked ?? 0;
  return html`<${Section}
    title="Needs a person"
    actions=${parked > 0 && html`<a class="button small" href=${withQuery("/console/tasks", { state: "parked" })}>${plural(parked, "parked task")}</a>`}
  >
    ${
      rows.length > 0 &&
      html`<ul class="attention lines">
        ${rows}
      </ul>`
    }
    ${
      causes.length > 0 &&
      html`<h3>Causes that are new or came back, and those that somebody works on</h3>
        <${CauseTable} causes=${causes} brief />
        ${data.moreCauses && html`<p><a href="/console/causes?state=new,regressed,working">All of them</a></p>`}`
    }
    ${stats && !rows.length && !causes.length && html`<p class="green"><span aria-hidden="true">✓</span> Nothing. No new cause, no held queue, all sidecars are there.</p>`}
  <//>`;
}

/** @param {any} node */
const nodeLink = node => html`<a href="/console/nodes"><${Text} value=${node.node} /></a>`;
