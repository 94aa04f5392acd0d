// Pages by key: the cursor is in the address, and the way back is the browser's.
import { html } from "../lib/html.js";
import { setQuery } from "../lib/router.js";

/** @param {{ query: URLSearchParams, next: string | null | undefined, shown: number, what: string }} props */
export function Pager({ query, next, shown, what }) {
  const cursor = query.get("cursor");
  if (!cursor && !next)
    return html`<p class="pager faint">${shown} ${what}${shown === 1 ? "" : "s"}, all on this page</p>`;
  return html`<nav class="pager" aria-label="Pages">
    <button type="button" disabled=${!cursor} onClick=${() => setQuery({ cursor: null })}>First page</button>
    <button type="button" disabled=${!cursor} onClick=${() => history.back()}>Back</button>
    <button type="button" disabled=${!next} onClick=${() => setQuery({ cursor: next })}>Next page</button>
    <span class="faint">${shown} on this page</span>
  </nav>`;
}
