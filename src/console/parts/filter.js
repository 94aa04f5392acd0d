// The conditions of GET /v1/tasks, which are also those of a bulk and of this page's address.
import { get } from "../lib/api.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { firstLine, Text } from "./text.js";

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
  { name: "outcome_unknown", label: "Silence held open", kind: "choice", options: ["true"], more: true },
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

/** Names and values of "name=value, …". @param {string} text @returns {Record<string, string>} */
export const pairs = text =>
  Object.fromEntries(
    text
      .split(/[\n,]/)
      .map(pair => pair.split("="))
      .filter(([name, ...value]) => name.trim() && value.length)
      .map(([name, ...value]) => [name.trim(), value.join("=").trim()]),
  );

/**
 * What can be done to one task in these `states`,. Success is said as `past`, with "It is" before it.
 * @type {Record<string, { label: string, states: string[], past: string, text?: string, danger?: boolean }>}
 */
export const ACTIONS = {
  redrive: {
    label: "Redrive",
    states: ["parked", "scheduled", "succeeded", "awaiting", "replaced"],
    past: "sent again",
    text: "It is sent now, and begins at the first level again.",
  },
  fire: { label: "Fire now", states: ["scheduled"], past: "made due now", text: "It is due now instead of later." },
  reschedule: {
    label: "Reschedule",
    states: ["scheduled"],
    past: "rescheduled",
    text: "The same attempt, at another time.",
  },
  finish: {
    label: "Report a result",
    states: ["scheduled", "publishing", "awaiting", "parked", "succeeded"],
    past: "reported",
    text: "On behalf of the consumer.",
  },
  cancel: { label: "Cancel", states: ["scheduled"], past: "cancelled", text: "It will not be sent.", danger: true },
  discard: {
    label: "Discard",
    states: ["parked", "scheduled"],
    past: "discarded",
    text: "It is given up. It stays in the database until retention deletes it.",
    danger: true,
  },
};

/** What a bulk does. @type {typeof ACTIONS} */
export const BULK_ACTIONS = {
  redrive: { ...ACTIONS.redrive, states: ["parked"] },
  fire: ACTIONS.fire,
  cancel: ACTIONS.cancel,
  discard: ACTIONS.discard,
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
  return action === "succeed" || action === "fail" ? { ...narrow, outcome_unknown: "true" } : narrow;
}

/** @type {Map<string, Promise<any>>} */
const causes = new Map();

/** @param {string} path */
function readOnce(path) {
  const found = causes.get(path) ?? get(path);
  causes.set(path, found);
  return found;
}

/** The value of a condition: a cause by its error, not by its number. @param {{ name: string, value: string }} props */
export function Value({ name, value }) {
  const { data } = useData(name === "cause" ? `/v1/causes/${encodeURIComponent(value)}` : null, { read: readOnce });
  const { type, first } = firstLine(data?.error_type, data?.sample);
  return html`<span title=${value}
    ><${Text} value=${data ? `${type} ${first}`.trim() || value : value} most=${120}
  /></span>`;
}

/** What a filter says; with `remove`, each condition can be taken away. @param {{ filter: Record<string, string>, remove?: (name: string) => void }} props */
export function FilterChips({ filter, remove }) {
  const entries = Object.entries(filter);
  if (!entries.length) return null;
  return html`<ul class="row chips" aria-label="Filter">
    ${entries.map(
      ([name, value]) =>
        html`<li class="row">
          <span class="faint">${name.replaceAll("_", " ")}</span> <${Value} name=${name} value=${value} />
          ${remove && html`<button type="button" class="quiet small" aria-label="Remove ${name}" onClick=${() => remove(name)}>✕</button>`}
        </li>`,
    )}
  </ul>`;
}
