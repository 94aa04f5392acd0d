import { html } from "../lib/html.js";
import { stringify } from "../lib/json.js";
import { capital } from "../lib/format.js";
import { duration } from "../lib/time.js";
import { Facts } from "./page.js";
import { Text } from "./text.js";

/** A value of the config, as short as it can be said. @param {string} name @param {any} value @returns {any} */
export function said(name, value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "number" && name.endsWith("_ms")) return duration(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return html`<code class="wrap"><${Text} value=${stringify(value)} /></code>`;
  return html`<${Text} value=${value} />`;
}

/** @param {string} name */
export const nameOf = name => capital(name.replace(/_ms$/, "").replaceAll("_", " "));

/** @param {{ rules: ReturnType<typeof import("../lib/config.js").configOf> }} props */
export function Rules({ rules }) {
  const rows = Object.entries(rules.own)
    .filter(([name]) => name !== "ladder" && name !== "name" && name !== "rules")
    .map(([name, value]) => /** @type {[string, any]} */ ([nameOf(name), said(name, value)]));
  const list = /** @type {any[]} */ (Array.isArray(rules.own.rules) ? rules.own.rules : []);
  return html`<${Facts}
      rows=${[["Ladder", html`<code>${rules.ladderName}</code>`], ["From", rules.pattern && html`<code>${rules.pattern}</code> of the config`], ...rows]}
    />
    ${
      list.length > 0 &&
      html`<ol class="rule-list">
        ${list.map(
          rule =>
            html`<li>
              <code class="wrap"><${Text} value=${stringify(rule)} /></code>
            </li>`,
        )}
      </ol>`
    }`;
}
