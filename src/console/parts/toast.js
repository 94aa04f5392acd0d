// Says that something was done, for a moment and to screen readers.
import { html } from "../lib/html.js";
import { atom, useAtom } from "../lib/atom.js";

const said = atom("");
/** @type {number | undefined} */
let timer;

/** @param {string} text */
export function say(text) {
  said.set(text);
  clearTimeout(timer);
  timer = setTimeout(() => said.set(""), 6000);
}

export function Toast() {
  const text = useAtom(said);
  return html`<div class="toast ${text ? "shown" : ""}" role="status" aria-live="polite">${text}</div>`;
}
