// What the config says of a queue.
import { useState } from "preact/hooks";
import { post } from "../lib/api.js";
import { capital, count, duration, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";
import { useSend } from "../lib/live.js";
import { pairs } from "./filter.js";
import { Field, Form, useForm } from "./form.js";
import { Facts, Problem } from "./page.js";
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
const nameOf = name => capital(name.replace(/_ms$/, "").replaceAll("_", " "));

/** What no answer means: of a task, or of the config. @param {any} silence */
export function silenceOf(silence) {
  const [said, after] = Object.entries(silence ?? {})[0] ?? [];
  if (!said) return null;
  const text = typeof after === "number" ? duration(after) : String(after);
  return `counts as ${said.startsWith("presumed_after") ? "success" : "failure"} after ${text}`;
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

// What the rules would decide about a failure. Nothing is sent and nothing is stored.

/** @param {{ queue: string }} props */
export function Simulate({ queue }) {
  const { form, field } = useForm({ type: "", error: "", headers: "" });
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const { error, send } = useSend();
  const ask = () => {
    setAnswer(null);
    const headers = pairs(form.headers);
    send(async () =>
      setAnswer(
        await post("/v1/simulate", {
          queue,
          ...(form.type.trim() && { error_type: form.type.trim() }),
          ...(form.error.trim() && { error: form.error.trim() }),
          ...(Object.keys(headers).length && { headers }),
        }),
      ),
    );
  };
  const rows = answer && Object.entries(answer).filter(([name]) => name !== "queue");
  return html`<${Form} class="stack" onSubmit=${ask}>
    <p class="faint">If a message failed with this, what would the rules decide? Nothing is sent.</p>
    <div class="grid">
      <${Field} label="Error type" ...${field("type")} />
      <${Field} label="Headers" hint="name=value, …" ...${field("headers")} />
    </div>
    <${Field} label="Error" ...${field("error")} />
    <div class="row"><button>Simulate</button></div>
    <${Problem} error=${error} />
    ${rows && html`<div role="status"><${Facts} rows=${rows.map((/** @type {[string, any]} */ [name, value]) => [nameOf(name), said(name, value)])} /></div>`}
  <//>`;
}
