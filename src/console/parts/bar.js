// How far something is, in parts with their words below.
import { html } from "../lib/html.js";
import { count } from "../lib/format.js";

/** @param {{ total: number, parts: { label: string, n: number, tone: string }[], label: string }} props */
export function Bar({ total, parts, label }) {
  const whole = Math.max(1, total);
  let x = 0;
  const said = parts.map(part => `${part.label} ${part.n}`).join(", ");
  return html`<div class="bar">
    <svg viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label="${label}: ${said} of ${total}">
      <rect class="rest" width="1000" height="14" />
      ${parts.map(part => {
        const width = (part.n / whole) * 1000;
        const rect = html`<rect class=${part.tone} x=${x} width=${width} height="14" />`;
        x += width;
        return rect;
      })}
    </svg>
    <ul class="row">
      ${parts.map(part => html`<li class="row"><i class="dot ${part.tone}"></i>${part.label} <b>${count(part.n)}</b></li>`)}
    </ul>
  </div>`;
}
