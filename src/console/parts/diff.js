import { html } from "../lib/html.js";
import { lines, shortened } from "../lib/diff.js";
import { Text } from "./text.js";

/** @param {{ before: string, after: string, label: string }} props */
export function Diff({ before, after, label }) {
  if (before === after) return html`<p class="faint">${label}: no change</p>`;
  const all = lines(before, after);
  if (!all) return html`<p>${label}: changed; too long to show line by line</p>`;
  const marks = { same: " ", gone: "−", new: "+", skip: "⋯" };
  const words = { same: "", gone: "removed: ", new: "added: ", skip: "" };
  return html`<figure class="diff">
    <figcaption>${label}</figcaption>
    <pre tabindex="0">
${shortened(all).map(
        line =>
          html`<span class=${line.kind}
              ><span aria-hidden="true">${marks[line.kind]} </span><span class="sr">${words[line.kind]}</span
              ><${Text} value=${line.text || " "} lines /></span
            >${"\n"}`,
      )}</pre>
  </figure>`;
}
