// Keys: / searches, j and k go through a list, g and a letter go to a page, ? explains.
import { atom } from "./atom.js";
import { navigate } from "./router.js";

export const helpOpen = atom(false);

export const PAGES = /** @type {[string, string, string][]} */ ([
  ["o", "Overview", "/"],
  ["c", "Causes", "/console/causes"],
  ["q", "Queues", "/console/queues"],
  ["t", "Tasks", "/console/tasks"],
  ["b", "Bulks", "/console/bulks"],
  ["a", "Audit", "/console/audit"],
  ["n", "Nodes", "/console/nodes"],
  ["s", "Config", "/console/config"],
  ["y", "You", "/console/you"],
]);

/** @param {number} by */
function step(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main [data-row]")]);
  if (!rows.length) return;
  const at = rows.findIndex(row => row === document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

let pending = 0;

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.target;
  if (target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() < pending) {
    pending = 0;
    const page = PAGES.find(([key]) => key === event.key);
    if (page) {
      event.preventDefault();
      navigate(page[2]);
      return;
    }
  }
  if (event.key === "/") {
    const box = document.querySelector("[data-search]");
    if (box instanceof HTMLElement) {
      event.preventDefault();
      box.focus();
    }
  } else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "g") pending = Date.now() + 1200;
  else if (event.key === "x" && document.activeElement instanceof HTMLElement) {
    const box = document.activeElement.closest("tr")?.querySelector("input[type=checkbox]");
    if (box instanceof HTMLElement) box.click();
  } else if (event.key === "?") helpOpen.set(true);
}

export function startKeys() {
  addEventListener("keydown", onKey);
}
