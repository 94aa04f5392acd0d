import { html } from "../lib/html.js";
import { whatToDo } from "../lib/api.js";
import { Text } from "./text.js";

/** What went wrong, in the API's words, and what to do. @param {{ error: any, retry?: () => void }} props */
export function Problem({ error, retry }) {
  if (!error) return null;
  const errors = /** @type {{field: string, detail: string}[]} */ (error.errors ?? []);
  const todo = whatToDo(error);
  return html`<div class="problem" role="alert">
    <p>
      <strong><${Text} value=${error.message} /></strong>
      ${error.code && html` <code class="faint">${error.code}</code>`}
    </p>
    ${
      errors.length > 0 &&
      html`<ul>
        ${errors.map(one => html`<li><code>${one.field}</code>: <${Text} value=${one.detail} /></li>`)}
      </ul>`
    }
    ${todo && html`<p>${todo}</p>`} ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}
