// What the config says of a queue.
import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";
import { capital, count, plural } from "../lib/format.js";
import { duration } from "../lib/time.js";
import { Facts } from "./page.js";
import { Text } from "./text.js";

/** A value that no page knows, as short as it can be said. @param {string} name @param {any} value @returns {any} */
export function said(name, value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "number" && name.endsWith("_ms")) return duration(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return html`<code class="wrap"><${Text} value=${stringify(value)} /></code>`;
  return html`<${Text} value=${value} />`;
}

/** @param {string} name */
export const nameOf = name => capital(name.replace(/_ms$/, "").replaceAll("_", " "));

/** @param {any} silence */
function silenceOf(silence) {
  if (silence?.presumed_after_ms !== undefined) return `counts as success after ${duration(silence.presumed_after_ms)}`;
  if (silence?.reported_within_ms !== undefined)
    return `counts as failure after ${duration(silence.reported_within_ms)}`;
  return null;
}

/** @param {any} end */
function giveUpOf(end) {
  const parts = [];
  if (end?.attempts) parts.push(`after ${plural(end.attempts, "attempt")}`);
  if (end?.after_ms) parts.push(`${duration(end.after_ms)} after the first failure`);
  return parts.length ? parts.join(", or ") : null;
}

/** @param {any} breaker */
const breakerOf = breaker =>
  breaker &&
  `opens after ${breaker.open_after} failures of the last ${breaker.of_last}, waits ${breaker.wait_ms.map((/** @type {number} */ ms) => duration(ms)).join(", ")}`;

/** What is said of a queue by rows of names and values. @param {any} own @returns {[string, any][]} */
export const rowsOf = own => [
  ["Ladder", own.ladder && html`<code>${own.ladder}</code>`],
  ["Rules", own.rules && html`<code>${own.rules}</code>`],
  ["Silence", silenceOf(own.silence)],
  ["Promise", own.late_by_ms && `at most ${duration(own.late_by_ms)} late`],
  ["Gives up", giveUpOf(own.give_up)],
  ["Limits", own.gates?.limits],
  ["Window", own.gates?.window],
  ["Breaker", breakerOf(own.gates?.breaker)],
  ["After an outage", own.catch_up ? `${count(own.catch_up)} a second` : null],
];

/** @param {{ rules: any[] }} props */
export function RuleList({ rules }) {
  if (!rules.length) return null;
  return html`<ol class="lines">
    ${rules.map(
      rule =>
        html`<li>
          <b><${Text} value=${rule.name} /></b> <span class="faint">when</span>
          <code class="wrap"><${Text} value=${rule.when} /></code> <span class="faint">then</span>
          <code class="wrap"><${Text} value=${rule.then} /></code>
        </li>`,
    )}
  </ol>`;
}

/** What applies to one queue, as GET /v1/queues/{queue} says it. @param {{ config: any }} props */
export function Rules({ config }) {
  const from = config.entry
    ? html`<code><${Text} value=${config.entry} /></code> of the config`
    : "the defaults of the config";
  return html`<${Facts} rows=${[["From", from], ...rowsOf(config)]} /> <${RuleList} rules=${config.failure_rules} />`;
}
