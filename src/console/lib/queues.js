// A queue as several answers of the API know it.

/**
 * @typedef {object} QueueSummary
 * @property {string} queue
 * @property {string} state
 * @property {any} gate
 * @property {Record<string, number>} tasks by state
 * @property {number} waiting
 * @property {number} overdue
 * @property {string | null} oldestDue
 * @property {number} dueSoon
 * @property {number | null} share on time in the last hour; null: nothing was promised
 */

/**
 * @param {any} stats
 * @param {any[]} gates
 * @param {{ value: string, count: number }[]} [due]
 * @returns {QueueSummary[]}
 */
export function together(stats, gates, due = []) {
  /** @type {Map<string, QueueSummary>} */
  const found = new Map();
  const of = (/** @type {string} */ queue) => {
    let one = found.get(queue);
    if (!one) {
      one = {
        queue,
        state: "flowing",
        gate: null,
        tasks: {},
        waiting: 0,
        overdue: 0,
        oldestDue: null,
        dueSoon: 0,
        share: null,
      };
      found.set(queue, one);
    }
    return one;
  };
  for (const row of stats.by_queue ?? []) {
    if (!row.queue) continue;
    const one = of(row.queue);
    one.tasks[row.state] = row.tasks;
    one.overdue += row.overdue;
    if (row.state === "scheduled") {
      one.waiting = row.tasks;
      one.oldestDue = row.oldest_due_at;
    }
  }
  for (const gate of gates) {
    const one = of(gate.queue);
    one.state = gate.state;
    one.gate = gate;
    one.waiting = gate.waiting ?? one.waiting;
    one.oldestDue = gate.next_due_at ?? one.oldestDue;
  }
  for (const group of due) if (group.value !== null) of(group.value).dueSoon = group.count;
  for (const promise of stats.late_by ?? []) {
    const one = found.get(promise.queue);
    if (one) one.share = promise.last_hour?.share ?? null;
  }
  return [...found.values()].sort((a, b) => a.queue.localeCompare(b.queue));
}

/** What is held comes first, then what has parked tasks. @param {QueueSummary} a @param {QueueSummary} b */
export const atPlace = (a, b) =>
  Number(held(b)) - Number(held(a)) ||
  (b.tasks.parked ?? 0) - (a.tasks.parked ?? 0) ||
  b.waiting - a.waiting ||
  a.queue.localeCompare(b.queue);

/** @param {{ state: string }} queue */
export const held = queue => queue.state !== "flowing" && queue.state !== "rate_limited";
