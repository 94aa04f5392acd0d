// What needs a person first; then each queue; then how it went.
import { html } from "../lib/html.js";
import { get, getAll, withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useFigures } from "../lib/figures.js";
import { useChanges, useEvery } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { now } from "../lib/time.js";
import { Attention } from "../parts/attention.js";
import { Chart } from "../parts/chart.js";
import { Empty } from "../parts/empty.js";
import { Choice } from "../parts/field.js";
import { Loading, Page, Section } from "../parts/page.js";
import { Problem } from "../parts/problem.js";
import { QueueTile } from "../parts/queue_tile.js";
import { Totals } from "../parts/totals.js";
import { atPlace, together } from "../lib/queues.js";

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
  const figures = useFigures();
  const rest = useData("rest", readRest);
  const reload = async () => void (await Promise.all([figures.reload(), rest.reload()]));
  useChanges(() => true, reload, 2500);
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

const RANGES = /** @type {[string, string, number][]} */ ([
  ["1h", "1 hour", 36e5],
  ["6h", "6 hours", 216e5],
  ["24h", "24 hours", 864e5],
  ["7d", "7 days", 6048e5],
]);

/** @param {{ query: URLSearchParams, queue?: string }} props */
export function History({ query, queue }) {
  const from = query.get("from");
  const range = RANGES.find(([key]) => key === query.get("range")) ?? RANGES[0];
  const path = withQuery("/v1/activity", {
    queue,
    from: from ?? new Date(Math.floor((now() - range[2]) / 60000) * 60000).toISOString(),
    to: from && query.get("to"),
  });
  const { data, error, reload } = useData(path);
  useEvery(5000, reload);
  const points = data?.points ?? [];
  return html`<${Section}
    title="Failures, retries and successes"
    actions=${html`<${Choice}
      label="Range"
      options=${RANGES}
      value=${from ? null : range[0]}
      choose=${(/** @type {string} */ key) => setQuery({ range: key, from: null, to: null })}
    >
      ${from && html`<button type="button" class="small" aria-pressed="true" onClick=${() => setQuery({ from: null, to: null })}>Chosen range ✕</button>`}
    <//>`}
  >
    <${Problem} error=${error} />
    ${
      points.length
        ? html`<${Chart}
              points=${points}
              onRange=${(/** @type {number} */ a, /** @type {number} */ b) => setQuery({ from: new Date(a).toISOString(), to: new Date(b).toISOString() })}
            />
            <p>
              <small>
                a point is ${data.step_s === 60 ? "a minute" : `${Math.round(data.step_s / 60)} minutes`}; drag over the
                chart to look
                closer${
                  data.counted_with &&
                  html`; the config of this sidecar does not know the queue: it is counted as
                    <code>${data.counted_with}</code>, together with others`
                }</small
              >
            </p>`
        : data && html`<p class="faint">Nothing happened in this range.</p>`
    }
  <//>`;
}
