import { html } from "../lib/html.js";
import { get, getAll } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { to } from "../lib/router.js";
import { count, percent } from "../lib/format.js";
import { atPlace, together } from "../lib/queues.js";
import { firstLine } from "../lib/text.js";
import { Badge } from "../parts/badge.js";
import { Empty } from "../parts/empty.js";
import { Page } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { Text } from "../parts/text.js";
import { Time } from "../parts/time.js";
import { Totals } from "../parts/totals.js";

/** @param {string} _ @param {{ signal: AbortSignal }} options */
async function readQueues(_, options) {
  const [stats, queues] = await Promise.all([get("/v1/stats", options), getAll("/v1/queues", "queues", options)]);
  return { stats, queues: together(stats, queues.queues).sort(atPlace) };
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    label: "Queue",
    cell: queue => html`<a data-row href=${to("queues", queue.queue)}><${Text} value=${queue.queue} /></a>`,
  },
  { label: "State", cell: queue => html`<${Badge} is=${queue.state} />` },
  {
    label: "Parked",
    num: true,
    cell: queue => html`<b class=${queue.tasks.parked ? "red" : ""}>${count(queue.tasks.parked ?? 0)}</b>`,
  },
  { label: "Waiting", num: true, cell: queue => count(queue.waiting) },
  { label: "Awaiting", num: true, cell: queue => count(queue.tasks.awaiting ?? 0) },
  { label: "Succeeded", num: true, cell: queue => count(queue.tasks.succeeded ?? 0) },
  { label: "Overdue", num: true, cell: queue => count(queue.overdue) },
  {
    label: "On time",
    num: true,
    cell: queue => (queue.share === null ? html`<span class="faint">–</span>` : percent(queue.share)),
  },
  { label: "Next due", cell: queue => html`<${Time} at=${queue.next_due_at} />` },
  {
    label: "Why it is held",
    wide: true,
    cell: queue => html`<${Text} value=${[firstLine("", queue.reason).first, queue.by].filter(Boolean).join(", ")} />`,
  },
];

export function Queues() {
  const loaded = useData("queues", readQueues);
  const { data, stale, reload } = loaded;
  useChanges(() => true, reload, 2000);
  return html`<${Page} title="Queues" of=${loaded}>
    ${
      data &&
      (data.queues.length
        ? html`<${Totals} totals=${data.stats.totals} overdue=${data.stats.overdue} />
            <${Table}
              label="Queues"
              columns=${COLUMNS}
              rows=${data.queues}
              id=${(/** @type {any} */ q) => q.queue}
              busy=${stale}
            />`
        : html`<${Empty} title="No queue has a task." command="rung attach QUEUE">
            <p>
              Attach a queue, and what its consumers reject is sent again, by its ladder. To see whether it is attached:
              <code>rung attached</code>
            </p>
          <//>`)
    }
  <//>`;
}
