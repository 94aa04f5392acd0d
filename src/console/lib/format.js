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
