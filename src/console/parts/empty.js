import { html } from "../lib/html.js";
import { Copy } from "./copy.js";

/** Nothing to show, and how there would be something. @param {{ title: string, command?: string, children?: any }} props */
export function Empty({ title, command, children }) {
  return html`<div class="empty stack">
    <h2>${title}</h2>
    ${children} ${command && html`<p class="command"><code>${command}</code> <${Copy} text=${command} /></p>`}
  </div>`;
}
