import { useEffect, useState } from "preact/hooks";
import { liveSwitch, zone } from "./atom.js";

/** @param {number | null | undefined} n */
export const count = n => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));

/** @param {number | null | undefined} n 0 to 1 */
export function percent(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const value = n * 100;
  // 99.97 % is not 100 %: a share is rounded down.
  return `${value === 100 || value === 0 ? value : (Math.floor(value * 10) / 10).toFixed(1)} %`;
}

/** @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

/** @param {string} text */
export const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

/** A duration such as "1h30m" in milliseconds; NaN: it is none. @param {string} text */
export function parseDuration(text) {
  const units = /** @type {Record<string, number>} */ ({ ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 });
  if (!/^(\d+(ms|s|m|h|d))+$/.test(text)) return NaN;
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/(\d+)(ms|s|m|h|d)/g)) sum += Number(n) * units[unit];
  return sum;
}

// Times: how they are written, and what time it is by the database's clock.

let ahead = 0;

/** The database's time, from an answer that has it: the browser's clock may be wrong. @param {string} now */
export function setNow(now) {
  const at = Date.parse(now);
  if (!Number.isNaN(at) && Math.abs(at - Date.now() - ahead) > 1500) ahead = at - Date.now();
}

export const now = () => Date.now() + ahead;

/** @param {number} n @param {number} [width] */
const two = (n, width = 2) => String(n).padStart(width, "0");

/** @param {string | number | null | undefined} at @param {{ ms?: boolean, zone?: string }} [options] */
export function written(at, options = {}) {
  const date = new Date(at ?? NaN);
  if (Number.isNaN(date.getTime())) return "";
  const utc = (options.zone ?? zone.get()) === "utc";
  const d = utc ? new Date(date) : new Date(date.getTime() - date.getTimezoneOffset() * 60000);
  const day = `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`;
  const time = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`;
  return `${day} ${time}${options.ms ? "." + two(d.getUTCMilliseconds(), 3) : ""}`;
}

export const zoneName = () => {
  if (zone.get() === "utc") return "UTC";
  const minutes = -new Date().getTimezoneOffset();
  const sign = minutes < 0 ? "-" : "+";
  return `UTC${sign}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
};

const UNITS = /** @type {[string, number][]} */ ([
  ["d", 86400000],
  ["h", 3600000],
  ["m", 60000],
  ["s", 1000],
]);

/** "1h30m", as in the config: at most `parts` units. @param {number} ms @param {number} [parts] */
export function duration(ms, parts = 2) {
  if (Math.abs(ms) < 1000) return `${Math.round(ms)}ms`;
  let rest = Math.abs(ms);
  const first = UNITS.findIndex(([, unit]) => rest >= unit);
  let text = "";
  for (const [name, unit] of UNITS.slice(first, first + parts)) {
    const n = Math.floor(rest / unit);
    rest -= n * unit;
    if (n > 0) text += n + name;
  }
  return (ms < 0 ? "-" : "") + text;
}

/** "4m ago", "in 2h". @param {string} at @param {number} [from] */
export function relative(at, from = now()) {
  const ms = Date.parse(at) - from;
  if (Math.abs(ms) < 1500) return "now";
  return ms < 0 ? `${duration(-ms, 1)} ago` : `in ${duration(ms, 1)}`;
}

/** @type {Set<(n: number) => void>} */
const tickers = new Set();
setInterval(() => {
  if (liveSwitch.get() === "on" && !document.hidden) for (const tick of tickers) tick(now());
}, 1000);

/** Renders again each second, as long as live updates are on. */
export function useNow() {
  const [at, set] = useState(now());
  useEffect(() => {
    tickers.add(set);
    return () => void tickers.delete(set);
  }, []);
  return at;
}

/** The value of an input of type datetime-local as RFC 3339. @param {string} value */
export function fromInput(value) {
  if (!value) return "";
  const date = new Date(zone.get() === "utc" ? value + "Z" : value);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** @param {string} at */
export const toInput = at => (at ? written(at).replace(" ", "T").slice(0, 16) : "");
