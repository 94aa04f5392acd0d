// Bodies: bytes from base64, as text or as hexadecimal digits.

/** @param {string} base64 */
export const fromBase64 = base64 => Uint8Array.from(atob(base64), char => char.charCodeAt(0));

/** @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

/** The text that the bytes are; null if they are not UTF-8. @param {Uint8Array} bytes */
export function utf8(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** As `hexdump -C` shows them. @param {Uint8Array} bytes @param {number} limit */
export function hex(bytes, limit = 16384) {
  const lines = [];
  for (let i = 0; i < Math.min(bytes.length, limit); i += 16) {
    const row = [...bytes.subarray(i, Math.min(i + 16, limit))];
    const digits = row.map(byte => byte.toString(16).padStart(2, "0"));
    const chars = row.map(byte => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "."));
    const halves = [digits.slice(0, 8), digits.slice(8)].map(half => half.join(" ").padEnd(23));
    lines.push(`${i.toString(16).padStart(8, "0")}  ${halves.join("  ")}  ${chars.join("")}`);
  }
  return lines.join("\n");
}

/** @param {number} n */
export function size(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KB`;
  return `${(n / 1024 / 1024).toFixed(1)} MB`;
}

// A browser's text field knows one line end, LF. What had others gets them back, or cannot be edited in one.

/** @param {string} text @returns {"lf" | "crlf" | "mixed"} "lf" also without any; "mixed" also with a lone CR */
export function lineEnds(text) {
  const pairs = text.split("\r\n").length - 1;
  const returns = text.split("\r").length - 1;
  const feeds = text.split("\n").length - 1;
  if (returns === 0) return "lf";
  return returns === pairs && feeds === pairs ? "crlf" : "mixed";
}

/** As a text field has it. @param {string} text */
export const withLf = text => text.replaceAll("\r\n", "\n");

/** As it is sent. @param {string} text with LF @param {"lf" | "crlf" | "mixed"} ends */
export const withEnds = (text, ends) => (ends === "crlf" ? text.replaceAll("\n", "\r\n") : text);
