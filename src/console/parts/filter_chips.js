import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { firstLine } from "../lib/text.js";
import { Text } from "./text.js";

/** @type {Map<string, Promise<any>>} */
const causes = new Map();

/** @param {string} path */
function readOnce(path) {
  const found = causes.get(path) ?? get(path);
  causes.set(path, found);
  return found;
}

/** The value of a condition: a cause by its error, not by its number. @param {{ name: string, value: string }} props */
export function Value({ name, value }) {
  const { data } = useData(name === "cause" ? `/v1/causes/${encodeURIComponent(value)}` : null, readOnce);
  const { type, first } = firstLine(data?.error_type, data?.sample);
  return html`<span title=${value}
    ><${Text} value=${data ? `${type} ${first}`.trim() || value : value} most=${120}
  /></span>`;
}

/** What a filter says; with `remove`, each condition can be taken away. @param {{ filter: Record<string, string>, remove?: (name: string) => void }} props */
export function FilterChips({ filter, remove }) {
  const entries = Object.entries(filter);
  if (!entries.length) return null;
  return html`<ul class="row chips" aria-label="Filter">
    ${entries.map(
      ([name, value]) =>
        html`<li class="row">
          <span class="faint">${name.replaceAll("_", " ")}</span> <${Value} name=${name} value=${value} />
          ${remove && html`<button type="button" class="quiet small" aria-label="Remove ${name}" onClick=${() => remove(name)}>✕</button>`}
        </li>`,
    )}
  </ul>`;
}
