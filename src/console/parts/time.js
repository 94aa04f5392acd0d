import { html } from "../lib/html.js";
import { useAtom } from "../lib/atom.js";
import { zone } from "../lib/prefs.js";
import { relative, useNow, written, zoneName } from "../lib/time.js";

/** A time, relative, with the whole of it on hover; or written out. @param {{ at: string | null | undefined, full?: boolean, ms?: boolean }} props */
export function Time({ at, full = false, ms = false }) {
  useAtom(zone);
  if (!at) return html`<span class="faint">–</span>`;
  return full
    ? html`<time datetime=${at} title=${relativeNow(at)}>${written(at, { ms })}</time>`
    : html`<${Ago} at=${at} />`;
}

/** @param {string} at */
const relativeNow = at => relative(at);

/** @param {{ at: string }} props */
function Ago({ at }) {
  const now = useNow();
  return html`<time datetime=${at} title="${written(at, { ms: true })} ${zoneName()}">${relative(at, now)}</time>`;
}
