// A stranger's text: never markup, and its unseen characters are shown.
import { html } from "../lib/html.js";
import { pieces } from "../lib/text.js";

/** @param {{ value: any, lines?: boolean, most?: number }} props */
export function Text({ value, lines = false, most = 200000 }) {
  if (value === null || value === undefined || value === "") return html`<span class="faint">–</span>`;
  let text = String(value);
  const cut = text.length > most;
  if (cut) text = text.slice(0, most);
  return html`<bdi
    >${pieces(text, lines).map(piece =>
      typeof piece === "string" ? piece : html`<span class="unseen" title=${piece.named}>${piece.shown}</span>`,
    )}${cut && "…"}</bdi
  >`;
}
