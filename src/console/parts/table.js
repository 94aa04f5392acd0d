// A table that becomes cards where it is narrow. j and k go through the elements with data-row.
import { html } from "../lib/html.js";

/**
 * @typedef {object} Column
 * @property {string} label
 * @property {(row: any) => any} cell
 * @property {boolean} [num] right-aligned
 * @property {boolean} [wide] takes the room that is left, cut to one line
 * @property {any} [head] instead of the label
 */

/** @param {{ columns: Column[], rows: any[], id: (row: any) => string, label: string, marked?: (row: any) => boolean, busy?: boolean }} props */
export function Table({ columns, rows, id, label, marked, busy }) {
  return html`<div class="table-box" aria-busy=${busy ? "true" : "false"}>
    <table>
      <caption class="sr">
        ${label}
      </caption>
      <thead>
        <tr>
          ${columns.map(column => html`<th scope="col" class=${css(column)}>${column.head ?? column.label}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          row =>
            html`<tr key=${id(row)} class=${marked?.(row) ? "marked" : ""}>
              ${columns.map(
                column => html`<td class=${css(column)} data-label=${column.label}>${column.cell(row)}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** @param {Column} column */
const css = column => `${column.num ? "num" : ""} ${column.wide ? "wide" : ""}`.trim();
