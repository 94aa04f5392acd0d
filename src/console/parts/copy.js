import { useState } from "preact/hooks";
import { html } from "../lib/html.js";

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      // Without the clipboard's permission the text can still be selected.
    }
  };
  return html`<button type="button" class="small quiet" onClick=${copy} aria-label="${label}: ${text.slice(0, 60)}">
    ${done ? "Copied" : label}
  </button>`;
}
