import { html } from "../lib/html.js";
import { Copy } from "./copy.js";

/** Nothing to show, and how there would be something. @param {{ title: string, command?: string, children?: any }} props */
export function Empty({ title, command, children }) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${children} ${command && html`<p class="command"><code>${command}</code> <${Copy} text=${command} /></p>`}
  </div>`;
}
