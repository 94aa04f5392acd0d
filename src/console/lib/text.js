// What strangers wrote, made harmless to look at: control characters and those that turn the direction of text are shown,
// not obeyed.

const NAMES = /** @type {Record<number, string>} */ ({
  0x00ad: "soft hyphen",
  0x061c: "Arabic letter mark",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "pop directional formatting",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "pop directional isolate",
  0xfeff: "byte order mark",
});

/* eslint-disable no-control-regex */
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
/* eslint-enable no-control-regex */

/** @param {string} char */
function shown(char) {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

/** @param {string} char */
function named(char) {
  const code = char.codePointAt(0) ?? 0;
  const name = NAMES[code] ?? (code === 0x1b ? "escape" : "control character");
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")} ${name}`;
}

/**
 * The text in pieces: strings, and the characters that one would not see. Line breaks and tabs stay if it has lines.
 * @param {string} text
 * @param {boolean} lines
 * @returns {(string | { shown: string, named: string })[]}
 */
export function pieces(text, lines) {
  /** @type {(string | { shown: string, named: string })[]} */
  const found = [];
  let last = 0;
  for (const hit of text.matchAll(UNSEEN)) {
    const char = hit[0];
    if (lines && (char === "\n" || char === "\t")) continue;
    if (lines && char === "\r" && text[hit.index + 1] === "\n") continue;
    if (hit.index > last) found.push(text.slice(last, hit.index));
    found.push({ shown: shown(char), named: named(char) });
    last = hit.index + char.length;
  }
  if (last < text.length) found.push(text.slice(last));
  return found;
}

/** The same as one string, for titles and labels. @param {any} text */
export const plain = text => String(text ?? "").replace(UNSEEN, shown);

/**
 * An error in one line. A text often begins with its type: it is not said twice.
 * @param {string | null} type
 * @param {string | null} error
 */
export function firstLine(type, error) {
  const first = (error ?? "").split("\n")[0];
  return { type: type && !first.startsWith(type) ? type : "", first };
}
