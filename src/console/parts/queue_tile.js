import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { to } from "../lib/router.js";
import { now } from "../lib/time.js";
import { count, percent } from "../lib/format.js";
import { useRef } from "preact/hooks";
import { Badge } from "./badge.js";
import { Sparkline, thinned } from "./sparkline.js";
import { Text } from "./text.js";
import { Time } from "./time.js";

/** The last hour of a queue. @param {string} queue */
export function useLastHour(queue) {
  const from = useRef(new Date(now() - 36e5).toISOString());
  const { data } = useData(withQuery("/v1/activity", { queue, from: from.current }));
  // A queue that the config does not know is counted together with others: that says nothing about it.
  const points = /** @type {any[]} */ (data?.counted_with ? [] : (data?.points ?? []));
  const sum = (/** @type {string} */ key) => points.reduce((all, p) => all + (p[key] ?? 0), 0);
  const failed = sum("failed");
  const succeeded = sum("succeeded");
  return {
    failures: points.map(p => p.failed ?? 0),
    failed,
    succeeded,
    rate: failed + succeeded ? succeeded / (failed + succeeded) : null,
  };
}

/** @param {{ queue: import("../lib/queues.js").QueueSummary }} props */
export function QueueTile({ queue }) {
  const hour = useLastHour(queue.queue);
  return html`<a class="card tile" data-row href=${to("queues", queue.queue)}>
    <span class="row between"
      ><b><${Text} value=${queue.queue} /></b> <${Badge} is=${queue.state}
    /></span>
    <${Sparkline} values=${thinned(hour.failures)} tone="red" label="${hour.failed} failures in the last hour" />
    <span class="figures">
      <span><b class=${queue.tasks.parked ? "red" : ""}>${count(queue.tasks.parked ?? 0)}</b> parked</span>
      <span><b>${count(queue.waiting)}</b> waiting</span>
      <span><b>${count(queue.dueSoon)}</b> due in 1 min</span>
      <span><b>${percent(hour.rate)}</b> succeed</span>
      ${queue.share !== null && html`<span><b>${percent(queue.share)}</b> on time</span>`}
      ${queue.overdue > 0 && html`<span class="amber"><b>${count(queue.overdue)}</b> overdue, <${Time} at=${queue.next_due_at} /></span>`}
    </span>
  </a>`;
}
