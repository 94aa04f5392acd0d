// How numbers and times are written.
import { atom, liveSwitch, useAtom, zone } from "./atom.js";

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

// Times: how they are written, and what time it is by the database's clock.

let ahead = 0;

/** The database's time, from an answer that has it: the browser's clock may be wrong. @param {string} now */
export function setNow(now) {
  const at = Date.parse(now);
  if (!Number.isNaN(at) && Math.abs(at - Date.now() - ahead) > 1500) ahead = at - Date.now();
}

export const now = () => Date.now() + ahead;

/** @param {string | number | null | undefined} at @param {{ ms?: boolean }} [options] */
export function written(at, { ms = false } = {}) {
  const date = new Date(at ?? NaN);
  if (Number.isNaN(date.getTime())) return "";
  const minutes = zone.get() === "utc" ? 0 : date.getTimezoneOffset();
  const shifted = new Date(date.getTime() - minutes * 60000).toISOString();
  return shifted.slice(0, ms ? 23 : 19).replace("T", " ");
}

export const zoneName = () => {
  if (zone.get() === "utc") return "UTC";
  const minutes = new Date().getTimezoneOffset();
  return `UTC${minutes > 0 ? "-" : "+"}${new Date(Math.abs(minutes) * 60000).toISOString().slice(11, 16)}`;
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

const ticks = atom(0);
setInterval(() => {
  if (liveSwitch.get() === "on" && !document.hidden) ticks.set(now());
}, 1000);

/** Renders again each second, as long as live updates are on. */
export function useNow() {
  useAtom(ticks);
  return now();
}

/** The value of an input of type datetime-local as RFC 3339. @param {string} value */
export function fromInput(value) {
  if (!value) return "";
  const date = new Date(zone.get() === "utc" ? value + "Z" : value);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** @param {string} at */
export const toInput = at => (at ? written(at).replace(" ", "T").slice(0, 16) : "");
