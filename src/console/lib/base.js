// A proxy may have the console below a path. Addresses in the code are those of the API, which does not know it.

/** "/rung"; "" = none. The script lies there. */
export const base = new URL(".", import.meta.url).pathname.slice(0, -1);

/** The path of an address of this site, without it. @param {string} path */
export const within = path => (path.startsWith(base + "/") ? path.slice(base.length) : path);
