// A message: its body as text, JSON or bytes, its headers and properties. Whatever is in it is shown as text.
import { useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { fromBase64, hex, size, utf8 } from "../lib/bytes.js";
import { useData } from "../lib/data.js";
import { pretty, stringify } from "../lib/json.js";
import { Copy } from "./copy.js";
import { Choice } from "./field.js";
import { Facts, Loading } from "./page.js";
import { Problem } from "./problem.js";
import { Text } from "./text.js";

/** Most that is shown of a body: a browser does not like megabytes in one element. */
const MOST = 200000;

/** @param {any} table @returns {[string, any][]} */
const rowsOf = table =>
  Object.entries(table ?? {}).map(([name, value]) => [
    /** @type {any} */ (html`<${Text} value=${name} />`),
    html`<${Text} value=${value !== null && typeof value === "object" ? stringify(value) : String(value)} lines />`,
  ]);

/** @param {{ id: string, version: number, why: string, origin: any }} props */
export function MessageView({ id, version, why, origin }) {
  const { data, error, reload } = useData(why ? null : `/v1/tasks/${id}/message`, get);
  const [tab, setTab] = useState("");
  const bytes = data ? fromBase64(data.body_base64) : null;
  const text = bytes && utf8(bytes);
  const asJson = typeof text === "string" ? pretty(text) : null;
  const tabs = [
    ...(asJson !== null && text?.trim() ? [["json", "JSON"]] : []),
    ...(text !== null ? [["text", "Text"]] : []),
    ["hex", "Hex"],
    ["headers", `Headers ${Object.keys(data?.headers ?? {}).length}`],
    ["properties", "Properties"],
    ["origin", "Arrived with"],
  ];
  const shown = tab || tabs[0][0];
  if (why) {
    return html`<p class="faint">The message is not shown: ${why}</p>
      ${
        origin &&
        html`<h3>Arrived with</h3>
          <${Facts} rows=${rowsOf(origin)} />`
      }`;
  }
  if (!data || !bytes) return error ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const body = shown === "json" ? asJson : shown === "text" ? text : shown === "hex" ? hex(bytes) : null;
  return html`<div class="message" data-version=${version}>
    <${Choice} label="Parts of the message" options=${tabs} value=${shown} choose=${setTab}>
      ${body !== null && body !== "" && html`<${Copy} text=${body} />`}
      <a class="button small quiet" href="/v1/tasks/${id}/body" download="task-${id}.body">Download</a>
    <//>
    ${
      body !== null
        ? bytes.length
          ? html`<pre class="body" tabindex="0"><${Text} value=${body} lines most=${MOST} /></pre>
              <p>
                <small>
                  ${size(bytes.length)}${body.length > MOST || (shown === "hex" && bytes.length > 16384) ? ", cut here: download it to see all" : ""}</small
                >
              </p>`
          : html`<p class="faint">The body is empty.</p>`
        : shown === "headers"
          ? Object.keys(data.headers ?? {}).length
            ? html`<${Facts} rows=${rowsOf(data.headers)} />`
            : html`<p class="faint">It has no headers of its own.</p>`
          : html`<${Facts} rows=${rowsOf(shown === "properties" ? data.properties : origin)} />`
    }
  </div>`;
}
