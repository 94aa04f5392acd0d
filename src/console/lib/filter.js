// The conditions of GET /v1/tasks, which are also those of a bulk and of this page's address.

export const STATES = ["scheduled", "publishing", "awaiting", "succeeded", "parked", "cancelled", "discarded"];

/** @type {{ name: string, label: string, kind?: "time" | "states" | "choice", more?: boolean, options?: string[] }[]} */
export const FIELDS = [
  { name: "queue", label: "Queue" },
  { name: "state", label: "State", kind: "states" },
  { name: "error", label: "Error" },
  { name: "error_type", label: "Error type" },
  { name: "cause", label: "Cause" },
  { name: "message_id", label: "Message-id" },
  { name: "tag", label: "Tag", more: true },
  { name: "correlation_id", label: "Correlation id", more: true },
  { name: "exchange", label: "Exchange", more: true },
  { name: "ladder", label: "Ladder", more: true },
  { name: "kind", label: "Kind", kind: "choice", options: ["retry", "delay"], more: true },
  { name: "silence_held", label: "Silence held open", kind: "choice", options: ["true"], more: true },
  { name: "first_failed_after", label: "First failed after", kind: "time", more: true },
  { name: "first_failed_before", label: "First failed before", kind: "time", more: true },
  { name: "due_after", label: "Due after", kind: "time", more: true },
  { name: "due_before", label: "Due before", kind: "time", more: true },
  { name: "created_after", label: "Received after", kind: "time", more: true },
  { name: "created_before", label: "Received before", kind: "time", more: true },
];

const NAMES = new Set(FIELDS.map(field => field.name));

/** @param {URLSearchParams} query @returns {Record<string, string>} */
export function fromQuery(query) {
  /** @type {Record<string, string>} */
  const filter = {};
  for (const [name, value] of query) {
    if (value && (NAMES.has(name) || name.startsWith("header."))) filter[name] = value;
  }
  return filter;
}

/** What each action may be done to, and what it is called. @type {Record<string, { label: string, states: string[], past: string, danger?: boolean }>} */
export const BULK_ACTIONS = {
  redrive: { label: "Redrive", states: ["parked"], past: "sent again" },
  fire: { label: "Fire now", states: ["scheduled"], past: "made due now" },
  cancel: { label: "Cancel", states: ["scheduled"], past: "cancelled", danger: true },
  discard: { label: "Discard", states: ["parked", "scheduled"], past: "discarded", danger: true },
  succeed: { label: "Report success", states: ["awaiting"], past: "reported as succeeded" },
  fail: { label: "Report failure", states: ["awaiting"], past: "reported as failed", danger: true },
};

/** The filter of an action on everything that a filter matches: only states that the action is for. Null: none of them.
 * @param {string} action @param {Record<string, string>} filter @returns {Record<string, string> | null} */
export function narrowed(action, filter) {
  const chosen = filter.state ? filter.state.split(",") : [];
  const able = BULK_ACTIONS[action].states;
  const states = chosen.length ? chosen.filter(state => able.includes(state)) : able;
  if (!states.length) return null;
  const narrow = { ...filter, state: states.join(",") };
  return action === "succeed" || action === "fail" ? { ...narrow, silence_held: "true" } : narrow;
}
