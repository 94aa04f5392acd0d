import { useEffect } from "preact/hooks";
import { html } from "../lib/html.js";
import { plain } from "../lib/text.js";
import { Problem } from "./problem.js";

/**
 * The heading of a page, its way up, and its buttons. With `of`, what it reads: why that failed, or that it is not here yet.
 * @param {{ title: any, name?: string, up?: [string, string], badge?: any, actions?: any, of?: import("../lib/data.js").Loaded<any>, children?: any }} props
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

/** Names and values. @param {{ rows: [string, any][] }} props */
export function Facts({ rows }) {
  return html`<dl class="facts">
    ${rows
      .filter(([, value]) => value !== null && value !== undefined && value !== false)
      .map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
  </dl>`;
}

export const Loading = () => html`<p class="faint loading" role="status">Loading…</p>`;
