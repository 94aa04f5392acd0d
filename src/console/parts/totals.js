import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { count } from "../lib/format.js";

const STATES = /** @type {[string, string, string][]} */ ([
  ["parked", "Parked", "red"],
  ["scheduled", "Scheduled", "blue"],
  ["awaiting", "Awaiting an answer", "violet"],
  ["succeeded", "Succeeded", "green"],
]);

/**
 * How many tasks are in which state, of all queues or of one; `more` are shares.
 * @param {{ totals: Record<string, number>, overdue: number, queue?: string, more?: [string, string][] }} props
 */
export const Totals = ({ totals, overdue, queue, more = [] }) =>
  html`<ul class="grid totals">
    ${STATES.map(([state, label, tone]) => figure(totals[state] ?? 0, label, tone, { queue, state }))}
    ${figure(overdue, "Overdue", "amber", { queue, state: "scheduled", sort: "due" })}
    ${more.map(
      ([value, label]) =>
        html`<li>
          <span><b>${value}</b><span>${label}</span></span>
        </li>`,
    )}
  </ul>`;

/** @param {number} n @param {string} label @param {string} tone @param {Record<string, any>} filter */
const figure = (n, label, tone, filter) =>
  html`<li>
    <a href=${withQuery("/console/tasks", filter)}><b class=${n ? tone : ""}>${count(n)}</b><span>${label}</span></a>
  </li>`;
