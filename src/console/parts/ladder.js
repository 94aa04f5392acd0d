// A ladder as a picture: rungs from the bottom to the top, each as far up as it waits long (by the logarithm), with how
// many tasks wait on each.
import { html } from "../lib/html.js";
import { duration } from "../lib/time.js";
import { count } from "../lib/format.js";

/** @param {any} ladder @returns {number[]} */
export const delays = ladder => ladder?.delays_ms ?? [];

/** @param {{ ladder: any, waiting?: Record<string, number> | null, parked?: number | null, href?: (level: number) => string }} props */
export function LadderPicture({ ladder, waiting, parked, href }) {
  const all = delays(ladder);
  if (!all.length) return null;
  const step = all.length > 14 ? 22 : 30;
  const top = 46;
  const height = top + all.length * step + 34;
  const y = (/** @type {number} */ level) => height - 34 - (level - 0.5) * step;
  const most = Math.max(1, ...all.map((_, i) => waiting?.[i + 1] ?? 0));
  let since = 0;
  const sinceFirst = all.map(ms => (since += ms));
  const label = all
    .map((ms, i) => `level ${i + 1} after ${duration(ms)}${waiting ? `, ${waiting[i + 1] ?? 0} wait` : ""}`)
    .join("; ");
  return html`<svg class="ladder" viewBox="0 0 420 ${height}" role="img" aria-label="Ladder: ${label}">
    <line class="rail" x1="118" x2="118" y1=${top - 8} y2=${height - 18} />
    <line class="rail" x1="182" x2="182" y1=${top - 8} y2=${height - 18} />
    <text class="end" x="150" y="16" text-anchor="middle">then it is parked</text>
    ${parked ? html`<text class="parked" x="150" y="32" text-anchor="middle">■ ${count(parked)} parked</text>` : null}
    ${all.map((ms, i) => {
      const n = waiting?.[i + 1] ?? 0;
      const row = html`<g class=${n ? "busy" : ""}>
        <line class="rung" x1="118" x2="182" y1=${y(i + 1)} y2=${y(i + 1)} />
        <text class="delay" x="106" y=${y(i + 1) + 4} text-anchor="end">${duration(ms)}</text>
        <text class="since" x="40" y=${y(i + 1) + 4} text-anchor="end">${i + 1}</text>
        ${waiting && n > 0 && html`<rect class="wait" x="196" y=${y(i + 1) - 7} rx="3" height="14" width=${4 + (n / most) * 100} />`}
        <text class="n" x=${waiting && n > 0 ? 208 + (n / most) * 100 : 196} y=${y(i + 1) + 4}>
          ${n > 0 ? `${count(n)} wait` : ""}
        </text>
        <title>level ${i + 1}: ${duration(ms)} after the failure, ${duration(sinceFirst[i], 3)} after the first</title>
      </g>`;
      return href && n > 0 ? html`<a href=${href(i + 1)}>${row}</a>` : row;
    })}
    <text class="end" x="150" y=${height - 4} text-anchor="middle">first failure</text>
  </svg>`;
}

/** A ladder as a timeline from the first failure to the last level, by the logarithm. @param {{ ladder: any }} props */
export function LadderTimeline({ ladder }) {
  const all = delays(ladder);
  if (!all.length) return html`<p class="faint">no levels</p>`;
  let since = 0;
  const at = all.map(ms => (since += ms));
  const low = Math.log(Math.max(500, at[0]) / 2);
  const high = Math.log(at[at.length - 1]);
  const x = (/** @type {number} */ ms) => 16 + ((Math.log(ms) - low) / Math.max(0.1, high - low)) * 940;
  // Words that would lie on each other go to the second row, and if that is full, too, they are left to the title.
  let ends = [-99, -99];
  return html`<svg
    class="ladder-line"
    viewBox="0 0 1000 62"
    role="img"
    aria-label="Retries after ${at.map(ms => duration(ms)).join(", ")}"
  >
    <line class="rail" x1="6" x2="960" y1="22" y2="22" />
    <circle class="first" cx="6" cy="22" r="4"><title>first failure</title></circle>
    ${at.map((ms, i) => {
      const place = Math.max(18, x(ms));
      const text = duration(ms);
      const width = text.length * 8;
      const row = place - width / 2 > ends[0] ? 0 : place - width / 2 > ends[1] ? 1 : -1;
      if (row >= 0) ends[row] = place + width / 2 + 6;
      return html`<g>
        <line class="rung" x1=${place} x2=${place} y1="12" y2="32" />
        <title>level ${i + 1}: ${duration(all[i])} after the failure before, ${duration(ms, 3)} after the first</title>
        ${row >= 0 && html`<text x=${place} y=${row ? 60 : 46} text-anchor="middle">${text}</text>`}
      </g>`;
    })}
    <text class="end" x="994" y="26" text-anchor="end">■</text>
  </svg>`;
}
