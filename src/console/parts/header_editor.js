import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";

/** @param {Record<string, any>} headers */
export const rowsFrom = headers => Object.entries(headers).map(([name, value]) => ({ name, value: stringify(value) }));

/** Names, and values as JSON: so a number stays a number. @param {{ rows: { name: string, value: string }[], setRows: (rows: { name: string, value: string }[]) => void }} props */
export function HeaderEditor({ rows, setRows }) {
  const set = (/** @type {number} */ i, /** @type {any} */ change) =>
    setRows(rows.map((row, j) => (i === j ? { ...row, ...change } : row)));
  return html`<fieldset class="headers stack">
    <legend>Headers <small>values as JSON: "text", 5, true</small></legend>
    ${rows.map(
      (row, i) =>
        html`<div class="header-row">
          <input
            aria-label="Name of header ${i + 1}"
            value=${row.name}
            spellcheck=${false}
            onInput=${(/** @type {any} */ e) => set(i, { name: e.target.value })}
          />
          <input
            aria-label="Value of header ${i + 1}"
            class="code"
            value=${row.value}
            spellcheck=${false}
            onInput=${(/** @type {any} */ e) => set(i, { value: e.target.value })}
          />
          <button
            type="button"
            class="small quiet"
            aria-label="Remove header ${row.name}"
            onClick=${() => setRows(rows.filter((_, j) => j !== i))}
          >
            ✕
          </button>
        </div>`,
    )}
    <button type="button" class="small" onClick=${() => setRows([...rows, { name: "", value: '""' }])}>
      Add a header
    </button>
  </fieldset>`;
}
