// Which lines differ: the longest common subsequence, of texts up to a bound.
import { html } from "../lib/html.js";
import { Text } from "./text.js";

const MOST_CELLS = 4_000_000;

/** @typedef {{ kind: "same" | "gone" | "new" | "left", text: string }} Line */

/** Null: too long to compare. @param {string} before @param {string} after @returns {Line[] | null} */
function lines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middleA = a.slice(start, a.length - end);
  const middleB = b.slice(start, b.length - end);
  if (middleA.length * middleB.length > MOST_CELLS) return null;
  const same = (/** @type {string[]} */ part) => part.map(text => ({ kind: /** @type {const} */ ("same"), text }));
  return [...same(a.slice(0, start)), ...between(middleA, middleB), ...same(a.slice(a.length - end))];
}

/** @param {string[]} a @param {string[]} b */
function between(a, b) {
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  /** @type {Line[]} */
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ kind: "same", text: a[i++] });
      j++;
    } else if (j >= b.length || (i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      found.push({ kind: "gone", text: a[i++] });
    } else {
      found.push({ kind: "new", text: b[j++] });
    }
  }
  return found;
}

/** The same with long equal parts left out. @param {Line[]} all */
function shortened(all) {
  const near = all.map((_, i) => all.slice(Math.max(0, i - 3), i + 4).some(line => line.kind !== "same"));
  /** @type {Line[]} */
  const found = [];
  let left = 0;
  for (let i = 0; i <= all.length; i++) {
    if (near[i] === false) left++;
    else {
      if (left) found.push({ kind: "left", text: `${left} equal lines` });
      left = 0;
      if (i < all.length) found.push(all[i]);
    }
  }
  return found;
}

/** @param {{ before: string, after: string, label: string }} props */
export function Diff({ before, after, label }) {
  if (before === after) return html`<p class="faint">${label}: no change</p>`;
  const all = lines(before, after);
  if (!all) return html`<p>${label}: changed; too long to show line by line</p>`;
  const marks = { same: " ", gone: "−", new: "+", left: "⋯" };
  const words = { same: "", gone: "removed: ", new: "added: ", left: "" };
  const shown = shortened(all).map(
    ({ kind, text }) =>
      html`<span class=${kind}
          ><span aria-hidden="true">${marks[kind]} </span><span class="sr">${words[kind]}</span
          ><${Text} value=${text || " "} lines /></span
        >${"\n"}`,
  );
  return html`<figure class="diff">
    <figcaption>${label}</figcaption>
    <pre tabindex="0">${shown}</pre>
  </figure>`;
}
