// A proxy may have the console below a path. Addresses in the code are those of the API, which does not know it.
import { atom, useAtom } from "./atom.js";

/** "/rung"; "" = none. The script lies there. */
export const base = new URL(".", import.meta.url).pathname.slice(0, -1);

/** The path of an address of this site, without it. @param {string} path */
export const within = path => (path.startsWith(base + "/") ? path.slice(base.length) : path);

// The address is the state of a page: its path says which page, its query what is shown there.

const here = () => within(location.pathname) + location.search;
const current = atom(here());
addEventListener("popstate", () => current.set(here()));

/** @param {string} to @param {{ replace?: boolean }} [options] */
export function navigate(to, options = {}) {
  if (to === here()) return;
  const otherPage = new URL(to, location.href).pathname !== within(location.pathname);
  if (options.replace) history.replaceState(null, "", base + to);
  else history.pushState(null, "", base + to);
  current.set(here());
  if (otherPage) {
    scrollTo(0, 0);
    document.querySelector("main")?.focus({ preventScroll: true });
  }
}

export function useLocation() {
  const address = useAtom(current);
  const url = new URL(address, location.origin);
  return { path: url.pathname, query: url.searchParams };
}

/** Sets parameters of the query; null or "" removes one. @param {Record<string, string | null | undefined>} changes */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  navigate(within(location.pathname) + (text ? `?${text}` : ""));
}

/**
 * The parameters of a path that has the form of a pattern such as "/console/tasks/:id"; null: it has another form.
 * @param {string} pattern
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const found = new RegExp(`^${pattern.replace(/:(\w+)/g, "(?<$1>[^/]+)")}/?$`).exec(path);
  try {
    return found && Object.fromEntries(Object.entries({ ...found.groups }).map(([k, v]) => [k, decodeURIComponent(v)]));
  } catch {
    return null;
  }
}

/** Links within the console change the page without loading it again. */
export function followLinks() {
  addEventListener("click", event => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || link.hash) return;
    const path = within(link.pathname);
    if (path !== "/" && !path.startsWith("/console")) return;
    event.preventDefault();
    navigate(path + link.search);
  });
}

/** @param {string[]} parts */
export const to = (...parts) => "/console/" + parts.map(encodeURIComponent).join("/");
