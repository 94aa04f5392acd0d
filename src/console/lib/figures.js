// The counts of tasks, and the queues.
import { createContext } from "preact";
import { get } from "./api.js";
import { setNow } from "./format.js";
import { useData, useEvery } from "./live.js";

/** One reading for all that show them. */
export const Figures = createContext(/** @type {import("./live.js").Loaded} */ (/** @type {any} */ (null)));

/** @param {string} path @param {{ signal: AbortSignal }} options */
async function read(path, options) {
  const data = await get(path, options);
  setNow(data.now);
  return data;
}

/** The sidecar reads them at most once a second. */
export function useFigures() {
  const figures = useData("/v1/overview", { read });
  useEvery(2500, figures.reload);
  return figures;
}

// A queue as several answers of the API know it.

/**
 * Queues as GET /v1/queues has them, each with its `tasks` by state, what is `overdue`, what is `dueSoon`, and the `share`
 * that was on time in the last hour; null: nothing was promised.
 * @param {any} stats
 * @param {any[]} listed of GET /v1/queues; GET /v1/overview leaves some out that flow
 * @param {{ value: string, count: number }[]} [due]
 * @returns {any[]}
 */
export function together(stats, listed, due = []) {
  const known = new Map(listed.map(one => [one.queue, one]));
  /** @type {Map<string, any[]>} */
  const rows = new Map(listed.map(one => [one.queue, []]));
  for (const row of stats.by_queue) if (row.queue) rows.set(row.queue, [...(rows.get(row.queue) ?? []), row]);
  return [...rows].map(([queue, own]) => {
    const waiting = own.find(row => row.state === "scheduled");
    return {
      queue,
      state: "flowing",
      waiting: waiting?.tasks ?? 0,
      next_due_at: waiting?.oldest_due_at ?? null,
      ...known.get(queue),
      tasks: Object.fromEntries(own.map(row => [row.state, row.tasks])),
      overdue: own.reduce((sum, row) => sum + row.overdue, 0),
      dueSoon: due.find(group => group.value === queue)?.count ?? 0,
      share: stats.late_by.find((/** @type {any} */ promise) => promise.queue === queue)?.last_hour.share ?? null,
    };
  });
}

/** What is held comes first, then what has parked tasks. @param {any} a @param {any} b */
export const atPlace = (a, b) =>
  Number(held(b)) - Number(held(a)) ||
  (b.tasks.parked ?? 0) - (a.tasks.parked ?? 0) ||
  b.waiting - a.waiting ||
  a.queue.localeCompare(b.queue);

/** @param {{ state: string }} queue */
export const held = queue => queue.state !== "flowing" && queue.state !== "rate_limited";
