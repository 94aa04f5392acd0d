// A stranger's text: never markup, and its unseen characters are shown.
import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { firstLine, pieces } from "../lib/text.js";

/** An error: its first line, the others on demand. @param {{ value: string | null }} props */
export function ErrorText({ value }) {
  const { first } = firstLine("", value);
  if (!value || first === value) return html`<${Text} value=${value} />`;
  return html`<details>
    <summary><${Text} value=${first} most=${300} /></summary>
    <pre tabindex="0"><${Text} value=${value} lines /></pre>
  </details>`;
}

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

/** @param {{ queue: string | null | undefined }} props */
export const QueueLink = ({ queue }) =>
  queue ? html`<a href=${to("queues", queue)}><${Text} value=${queue} /></a>` : html`<${Text} value="" />`;
