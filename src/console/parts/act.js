// A button for something that one may not always do: then it is disabled, and says why.
import { html } from "../lib/html.js";

/** @param {{ why?: string, onClick?: () => void, href?: string, class?: string, children?: any, label?: string }} props */
export function Act({ why = "", onClick, href, class: look = "", children, label }) {
  if (href && !why) return html`<a class="button ${look}" href=${href} aria-label=${label}>${children}</a>`;
  return html`<button
    type="button"
    class=${look}
    aria-disabled=${why ? "true" : undefined}
    aria-label=${why && label ? `${label}: ${why}` : label}
    title=${why}
    onClick=${() => !why && onClick?.()}
  >
    ${children}
  </button>`;
}
