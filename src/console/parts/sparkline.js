import { html } from "../lib/html.js";

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

/** Neighbours added up, so that at most `most` values are left. @param {number[]} values @param {number} most */
export function thinned(values, most = 60) {
  const by = Math.ceil(values.length / most);
  if (by <= 1) return values;
  const found = [];
  for (let i = 0; i < values.length; i += by) found.push(values.slice(i, i + by).reduce((a, b) => a + b, 0));
  return found;
}
