import { useEffect, useState } from "preact/hooks";
import { WHAT_TO_DO } from "../lib/api.js";
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { setQuery } from "../lib/router.js";
import { plain, Text } from "./text.js";

/**
 * The heading of a page, its way up, and its buttons. With `of`, what it reads: why that failed, or that it is not here yet.
 * @param {{ title: any, name?: string, up?: [string, string], badge?: any, actions?: any, of?: import("../lib/live.js").Loaded, children?: any }} props
 */
export function Page({ title, name, up, badge, actions, of, children }) {
  const said = plain(name ?? title);
  useEffect(() => {
    document.title = `${said} · Rung`;
  }, [said]);
  return html`<div class="page">
    <div class="row between head">
      <div>
        ${up && html`<p class="up"><a href=${up[1]}>← ${up[0]}</a></p>`}
        <h1>${title} ${badge}</h1>
      </div>
      ${actions && html`<div class="row">${actions}</div>`}
    </div>
    ${of && html`<${Problem} error=${of.error} retry=${of.reload} />`}
    ${of && !of.data && of.loading && html`<${Loading} />`} ${children}
  </div>`;
}

/** @param {{ title: any, actions?: any, children?: any, id?: string }} props */
export function Section({ title, actions, children, id }) {
  return html`<section class="section" id=${id}>
    <div class="row between head">
      <h2>${title}</h2>
      ${actions && html`<div class="row">${actions}</div>`}
    </div>
    ${children}
  </section>`;
}

/** Names and values; strings may be those of strangers. @param {{ rows: [any, any][] }} props */
export function Facts({ rows }) {
  return html`<dl class="facts">
    ${rows
      .filter(([, value]) => value !== null && value !== undefined && value !== false)
      .map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${typeof value === "string" ? html`<${Text} value=${value} />` : value}</dd>
          </div>`,
      )}
  </dl>`;
}

export const Loading = () => html`<p class="faint loading" role="status">Loading…</p>`;

/** What went wrong, in the API's words, and what to do. @param {{ error: any, retry?: () => void }} props */
export function Problem({ error, retry }) {
  if (!error) return null;
  const errors = /** @type {{field: string, detail: string}[]} */ (error.errors ?? []);
  const todo = WHAT_TO_DO[error.code];
  return html`<div class="problem" role="alert">
    <p>
      <strong><${Text} value=${error.message} /></strong>
      ${error.code && html` <code class="faint">${error.code}</code>`}
    </p>
    ${
      errors.length > 0 &&
      html`<ul>
        ${errors.map(one => html`<li><code>${one.field}</code>: <${Text} value=${one.detail} /></li>`)}
      </ul>`
    }
    ${todo && html`<p>${todo}</p>`} ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** Nothing to show, and how there would be something. @param {{ title: string, command?: string, children?: any }} props */
export function Empty({ title, command, children }) {
  return html`<div class="empty stack">
    <h2>${title}</h2>
    ${children} ${command && html`<p class="command"><code>${command}</code> <${Copy} text=${command} /></p>`}
  </div>`;
}

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      // Without the clipboard's permission the text can still be selected.
    }
  };
  return html`<button type="button" class="small quiet" onClick=${copy} aria-label="${label}: ${text.slice(0, 60)}">
    ${done ? "Copied" : label}
  </button>`;
}

// Pages by key: the cursor is in the address, and the way back is the browser's.

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

// A table that becomes cards where it is narrow. j and k go through the elements with data-row.

/**
 * @typedef {object} Column
 * @property {string} label
 * @property {(row: any) => any} cell
 * @property {boolean} [num] right-aligned
 * @property {boolean} [wide] takes the room that is left, cut to one line
 * @property {any} [head] instead of the label
 */

/** @param {{ columns: Column[], without?: string[], rows: any[], id: string, label: string, marked?: Map<string, any>, busy?: boolean }} props */
export function Table({ columns, without = [], rows, id, label, marked, busy }) {
  const shown = columns.filter(column => !without.includes(column.label));
  return html`<div class="table-box" aria-busy=${busy ? "true" : "false"}>
    <table>
      <caption class="sr">
        ${label}
      </caption>
      <thead>
        <tr>
          ${shown.map(column => html`<th scope="col" class=${css(column)}>${column.head ?? column.label}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          row =>
            html`<tr key=${row[id]} class=${marked?.has(row[id]) ? "marked" : ""}>
              ${shown.map(column => html`<td class=${css(column)} data-label=${column.label}>${column.cell(row)}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** @param {Column} column */
const css = column => `${column.num ? "num" : ""} ${column.wide ? "wide" : ""}`.trim();
