// Pages by key: the cursor is in the address, and the way back is the browser's.
import { html } from "../lib/html.js";
import { count } from "../lib/format.js";
import { setQuery } from "../lib/router.js";

/** @param {{ query: URLSearchParams, next: string | null | undefined, shown: number, what: string, counted?: any }} props */
export function Pager({ query, next, shown, what, counted }) {
  const cursor = query.get("cursor");
  if (!cursor && !next)
    return html`<p class="pager faint">${shown} ${what}${shown === 1 ? "" : "s"}, all on this page</p>`;
  return html`<nav class="row pager" aria-label="Pages">
    <button type="button" disabled=${!cursor} onClick=${() => setQuery({ cursor: null })}>First page</button>
    <button type="button" disabled=${!cursor} onClick=${() => history.back()}>Back</button>
    <button type="button" disabled=${!next} onClick=${() => setQuery({ cursor: next })}>Next page</button>
    <span class="faint"
      >${shown} on this page${counted && `, ${count(counted.count)}${counted.or_more ? " or more" : ""} in all`}</span
    >
  </nav>`;
}
