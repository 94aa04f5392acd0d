// How far something is, in parts with their words below.
import { count, duration } from "../lib/format.js";
import { html } from "../lib/html.js";

/** @param {{ total: number, parts: { label: string, n: number, tone: string }[], label: string }} props */
export function Bar({ total, parts, label }) {
  const whole = Math.max(1, total);
  let x = 0;
  const said = parts.map(part => `${part.label} ${part.n}`).join(", ");
  return html`<div class="bar">
    <svg viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label="${label}: ${said} of ${total}">
      <rect class="rest" width="1000" height="14" />
      ${parts.map(part => {
        const width = (part.n / whole) * 1000;
        const rect = html`<rect class=${part.tone} x=${x} width=${width} height="14" />`;
        x += width;
        return rect;
      })}
    </svg>
    <ul class="row">
      ${parts.map(part => html`<li class="row"><i class="dot ${part.tone}"></i>${part.label} <b>${count(part.n)}</b></li>`)}
    </ul>
  </div>`;
}

/** @param {{ values: number[], label: string, tone?: string }} props */
export function Sparkline({ values, label, tone = "blue" }) {
  if (values.length < 2) return null;
  const most = Math.max(1, ...values);
  const points = values.map(
    (v, i) => `${((i / (values.length - 1)) * 100).toFixed(1)},${(23 - (v / most) * 21).toFixed(1)}`,
  );
  return html`<svg class="spark ${tone}" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polygon points="0,24 ${points.join(" ")} 100,24" />
    <polyline points=${points.join(" ")} vector-effect="non-scaling-stroke" />
  </svg>`;
}

// A ladder as a picture: rungs from the bottom to the top. Beside each, how many tasks wait on it, or without such numbers
// how long after the first failure it is.

/** @param {{ ladder: any, waiting?: Record<string, number> | null, parked?: number }} props */
export function LadderPicture({ ladder, waiting, parked = 0 }) {
  const all = /** @type {number[]} */ (ladder.delays_ms ?? []);
  if (!all.length) return html`<p class="faint">no levels</p>`;
  const step = all.length > 14 ? 22 : 30;
  const top = 46;
  const height = top + all.length * step + 34;
  const most = Math.max(1, ...Object.values(waiting ?? {}));
  let sinceFirst = 0;
  const label = all
    .map((ms, i) => `level ${i + 1} after ${duration(ms)}${waiting ? `, ${waiting[i + 1] ?? 0} wait` : ""}`)
    .join("; ");
  return html`<svg class="ladder" viewBox="0 0 420 ${height}" role="img" aria-label="Ladder: ${label}">
    <line x1="118" x2="118" y1=${top - 8} y2=${height - 18} />
    <line x1="182" x2="182" y1=${top - 8} y2=${height - 18} />
    <text class="faint" x="150" y="16" text-anchor="middle">then it is parked</text>
    ${parked > 0 && html`<text class="red" x="150" y="32" text-anchor="middle">■ ${count(parked)} parked</text>`}
    ${all.map((ms, i) => {
      const n = waiting?.[i + 1] ?? 0;
      const width = n ? 4 + (n / most) * 100 : 0;
      const y = height - 34 - (i + 0.5) * step;
      sinceFirst += ms;
      return html`<g class=${n ? "busy" : ""}>
        <line x1="118" x2="182" y1=${y} y2=${y} />
        <text x="106" y=${y + 4} text-anchor="end">${duration(ms)}</text>
        <text class="faint" x="40" y=${y + 4} text-anchor="end">${i + 1}</text>
        <rect class="blue" x="196" y=${y - 7} rx="3" height="14" width=${width} />
        <text class=${waiting ? "" : "faint"} x=${204 + width} y=${y + 4}>
          ${waiting ? n > 0 && `${count(n)} wait` : `${duration(sinceFirst, 3)} after the first`}
        </text>
        <title>level ${i + 1}: ${duration(ms)} after the failure, ${duration(sinceFirst, 3)} after the first</title>
      </g>`;
    })}
    <text class="faint" x="150" y=${height - 4} text-anchor="middle">first failure</text>
  </svg>`;
}
