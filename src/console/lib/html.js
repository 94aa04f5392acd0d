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

/** @type {WeakMap<TemplateStringsArray, any>} */
const known = new WeakMap();

/**
 * htm drops a line break together with the blanks around it. Here it is one blank, as in HTML, except at both ends of a
 * template: so a sentence may be broken anywhere, and Prettier may do it.
 * @param {TemplateStringsArray} strings
 */
function asInHtml(strings) {
  const last = strings.length - 1;
  const parts = strings.map((text, i) =>
    text.replace(/\s*\n\s*/g, (all, at) =>
      (i === 0 && at === 0) || (i === last && at + all.length === text.length) ? "" : " ",
    ),
  );
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
