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
