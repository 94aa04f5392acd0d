// What the rules would decide about a failure. Nothing is sent and nothing is stored.
import { useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { post } from "../lib/api.js";
import { useSend } from "../lib/data.js";
import { Facts } from "./page.js";
import { Field } from "./field.js";
import { Problem } from "./problem.js";
import { nameOf, said } from "./rules.js";

/** @param {{ queue: string }} props */
export function Simulate({ queue }) {
  const [type, setType] = useState("");
  const [error, setError] = useState("");
  const [headers, setHeaders] = useState("");
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const { error: problem, send } = useSend();
  /** @param {Event} event */
  const ask = event => {
    event.preventDefault();
    setAnswer(null);
    send(async () => {
      const named = headers
        .split(/[\n,]/)
        .map(line => line.split("="))
        .filter(pair => pair.length > 1 && pair[0].trim())
        .map(([name, ...value]) => [name.trim(), value.join("=").trim()]);
      setAnswer(
        await post("/v1/simulate", {
          queue,
          ...(type.trim() && { error_type: type.trim() }),
          ...(error.trim() && { error: error.trim() }),
          ...(named.length && { headers: Object.fromEntries(named) }),
        }),
      );
    });
  };
  const rows = answer && Object.entries(answer).filter(([name]) => name !== "queue");
  return html`<form class="stack" onSubmit=${ask}>
    <p class="faint">If a message failed with this, what would the rules decide? Nothing is sent.</p>
    <div class="grid">
      <${Field} label="Error type" value=${type} onInput=${setType} />
      <${Field} label="Headers" hint="name=value, …" value=${headers} onInput=${setHeaders} />
    </div>
    <${Field} label="Error" value=${error} onInput=${setError} />
    <div class="row"><button>Simulate</button></div>
    <${Problem} error=${problem} />
    ${rows && html`<div role="status"><${Facts} rows=${rows.map((/** @type {[string, any]} */ [name, value]) => [nameOf(name), said(name, value)])} /></div>`}
  </form>`;
}
