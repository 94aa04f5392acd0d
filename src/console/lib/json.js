// JSON whose integers of 64 bits survive: those that a JavaScript number cannot hold are kept as their digits.

export class Digits {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARK = "\u0000digits:";

/** @param {string} token */
const unsafe = token => token.length > 15 && /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));

/** @param {string} text @returns {any} */
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const marked = text.replace(TOKENS, token => (unsafe(token) ? `"\\u0000digits:${token}"` : token));
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(MARK) ? new Digits(value.slice(MARK.length)) : value,
  );
}

/** @param {any} value @param {number} [indent] */
export function stringify(value, indent) {
  const text = JSON.stringify(value, (_, one) => (one instanceof Digits ? MARK + one.text : one), indent);
  return text === undefined ? "" : text.replace(/"\\u0000digits:(-?\d+)"/g, "$1");
}

/**
 * The same JSON with line breaks and indents; every value stays as it was written. Null: it is not JSON.
 * @param {string} text
 */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(Math.min(depth, 100));
  for (const token of text.match(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[^\s"[\]{},:]+|[[\]{},:]/g) ?? []) {
    if (token === "{" || token === "[") {
      depth++;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth--;
      out += line() + token;
    } else if (token === ",") out += token + line();
    else if (token === ":") out += ": ";
    else out += /^[[{]/.test(token) ? token[0] + token.at(-1) : token;
  }
  return out;
}
