import { html } from "../lib/html.js";
import { Text } from "./text.js";

/** What a filter says; with `remove`, each condition can be taken away. @param {{ filter: Record<string, string>, remove?: (name: string) => void }} props */
export function FilterChips({ filter, remove }) {
  const entries = Object.entries(filter);
  if (!entries.length) return null;
  return html`<ul class="chips" aria-label="Filter">
    ${entries.map(
      ([name, value]) =>
        html`<li>
          <span class="faint">${name.replaceAll("_", " ")}</span> <${Text} value=${value} most=${120} />
          ${remove && html`<button type="button" class="quiet small" aria-label="Remove ${name}" onClick=${() => remove(name)}>✕</button>`}
        </li>`,
    )}
  </ul>`;
}
