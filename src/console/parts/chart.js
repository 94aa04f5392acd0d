// Failures, retries and successes over time. The range is in the address; a drag over the chart narrows it.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { withQuery } from "../lib/api.js";
import { useAtom, zone } from "../lib/atom.js";
import { count, now, written } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData, useEvery } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { Choice } from "./form.js";
import { Problem, Section } from "./page.js";

const SERIES = /** @type {[string, string, string][]} */ ([
  ["failed", "Failures", "--red"],
  ["retried", "Retries", "--accent"],
  ["succeeded", "Successes", "--green"],
]);

/** What stands at the time axis: the day where it begins, else the time. @param {any} _ @param {number[]} at */
const ticks = (_, at) =>
  at.map((seconds, i) => {
    const text = written(seconds * 1000);
    const day = i > 0 && text.slice(0, 10) !== written(at[i - 1] * 1000).slice(0, 10);
    return day || at[1] - at[0] >= 86400 ? text.slice(5, 10) : text.slice(11, 16);
  });

/** What a canvas takes for a colour of the styles. @param {HTMLElement} element @param {string} name */
function colour(element, name) {
  element.style.color = `var(${name})`;
  return getComputedStyle(element).color;
}

/** @param {any[]} points @returns {any} */
const columns = points => [
  points.map(p => Date.parse(p.at) / 1000),
  ...SERIES.map(([key]) => points.map(p => p[key] ?? 0)),
];

/** Room for the longest label. @param {any} _ @param {string[] | null} labels */
const labelWidth = (_, labels) => Math.max(44, 12 + 7 * Math.max(0, ...(labels ?? []).map(label => label.length)));

/** From zero, and up to some value. @param {any} _ @param {number} __ @param {number} max @returns {[number, number]} */
const heights = (_, __, max) => [0, Math.max(5, max * 1.1)];

/** A drag chooses another range. @param {any} plot */
function choose(plot) {
  const { left, width } = plot.select;
  if (width < 8) return;
  const [from, to] = [left, left + width].map(at => new Date(plot.posToVal(at, "x") * 1000).toISOString());
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  setQuery({ from, to });
}

/** @param {{ points: any[] }} props */
function Chart({ points }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const zoneNow = useAtom(zone);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const make = () => {
      plot.current?.destroy();
      const axis = {
        stroke: colour(element, "--muted"),
        grid: { stroke: colour(element, "--line"), width: 1 },
        ticks: { show: false },
      };
      plot.current = new uPlot(
        {
          width: element.clientWidth,
          height: 200,
          tzDate: (/** @type {number} */ ts) => {
            const at = new Date(ts * 1000);
            return zoneNow === "utc" ? new Date(at.getTime() + at.getTimezoneOffset() * 60000) : at;
          },
          cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
          legend: { live: true },
          scales: { y: { range: heights } },
          axes: [
            { ...axis, values: ticks, size: 30 },
            { ...axis, size: labelWidth },
          ],
          series: [
            {
              label: "Time",
              value: (/** @type {any} */ _, /** @type {number} */ v) => (v ? written(v * 1000).slice(5, 16) : "–"),
            },
            ...SERIES.map(([, label, name]) => ({
              label,
              stroke: colour(element, name),
              width: 1.75,
              fill: name === "--red" ? colour(element, "--red-wash") : undefined,
              points: { show: false },
              value: (/** @type {any} */ _, /** @type {any} */ v) => count(v),
            })),
          ],
          hooks: { setSelect: [choose] },
        },
        columns(points),
        element,
      );
    };
    make();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 200 }));
    observer.observe(element);
    dark.addEventListener("change", make);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [zoneNow]);

  useEffect(() => plot.current?.setData(columns(points)), [points]);

  const sums = SERIES.map(
    ([key, label]) => `${label.toLowerCase()} ${count(points.reduce((sum, p) => sum + (p[key] ?? 0), 0))}`,
  );
  return html`<figure class="chart">
    <div ref=${box}></div>
    <figcaption class="sr">In this range: ${sums.join(", ")}.</figcaption>
  </figure>`;
}

const RANGES = /** @type {[string, string, number][]} */ ([
  ["1h", "1 hour", 36e5],
  ["6h", "6 hours", 216e5],
  ["24h", "24 hours", 864e5],
  ["7d", "7 days", 6048e5],
]);

/** @param {{ query: URLSearchParams, queue?: string }} props */
export function History({ query, queue }) {
  const from = query.get("from");
  const range = RANGES.find(([key]) => key === query.get("range")) ?? RANGES[0];
  const path = withQuery("/v1/activity", {
    queue,
    from: from ?? new Date(Math.floor((now() - range[2]) / 60000) * 60000).toISOString(),
    to: from && query.get("to"),
  });
  const { data, error, reload } = useData(path);
  useEvery(5000, reload);
  const points = data?.points ?? [];
  return html`<${Section}
    title="Failures, retries and successes"
    actions=${html`<${Choice}
      label="Range"
      options=${RANGES}
      value=${from ? null : range[0]}
      choose=${(/** @type {string} */ key) => setQuery({ range: key, from: null, to: null })}
    >
      ${from && html`<button type="button" class="small" aria-pressed="true" onClick=${() => setQuery({ from: null, to: null })}>Chosen range ✕</button>`}
    <//>`}
  >
    <${Problem} error=${error} />
    ${
      points.length
        ? html`<${Chart} points=${points} />
            <p>
              <small>
                a point is ${data.step_s === 60 ? "a minute" : `${Math.round(data.step_s / 60)} minutes`}; drag over the
                chart to look
                closer${
                  data.aggregated_as &&
                  html`; the config of this sidecar does not know the queue: it is counted as
                    <code>${data.aggregated_as}</code>, together with others`
                }</small
              >
            </p>`
        : data && html`<p class="faint">Nothing happened in this range.</p>`
    }
  <//>`;
}
