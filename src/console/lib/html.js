import htm from "htm";
import { h } from "preact";
import { base } from "./router.js";

/** @param {any} type @param {any} props @param {any[]} children */
function element(type, props, ...children) {
  for (const name of typeof type === "string" ? ["href", "src"] : []) {
    if (props?.[name]?.startsWith?.("/")) props = { ...props, [name]: base + props[name] };
  }
  return h(type, props, ...children);
}

const tag = htm.bind(element);

const BLOCKS =
  "div|p|ul|ol|li|dl|dt|dd|section|header|main|nav|aside|article|form|fieldset|legend|h[1-3]|pre|label|table|caption|thead|tbody|tr|t[dh]|" +
  "details|summary|select|option|datalist|figure|figcaption|dialog|svg|g|text|line|rect|circle|title|polyline|polygon";
const AFTER = new RegExp(`(</?(?:${BLOCKS})(?:\\s[^<>]*)?>) $`);
const BEFORE = new RegExp(`^ (</?(?:${BLOCKS})\\b)`);
const BETWEEN = new RegExp(`(</?(?:${BLOCKS})(?:\\s[^<>]*)?>) (?=<)|(?<=>) (?=</?(?:${BLOCKS})\\b)`, "g");

/** @type {WeakMap<TemplateStringsArray, any>} */
const known = new WeakMap();

/**
 * htm drops a line break together with the blanks around it. Here it is one blank, as in HTML, except beside blocks: so a
 * sentence may be broken anywhere, and Prettier may do it.
 * @param {TemplateStringsArray} strings
 */
function asInHtml(strings) {
  const last = strings.length - 1;
  const parts = strings.map((text, i) => {
    let part = text;
    if (i === 0) part = part.replace(/^\s*\n\s*/, "");
    if (i === last) part = part.replace(/\s*\n\s*$/, "");
    return part
      .replace(/\s*\n\s*/g, " ")
      .replace(BETWEEN, "$1")
      .replace(AFTER, "$1")
      .replace(BEFORE, "$1");
  });
  return Object.assign(parts, { raw: parts });
}

/** @param {TemplateStringsArray} strings @param {any[]} values @returns {any} */
export function html(strings, ...values) {
  let parts = known.get(strings);
  if (!parts) {
    parts = asInHtml(strings);
    known.set(strings, parts);
  }
  return tag(parts, ...values);
}
