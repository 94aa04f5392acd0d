// Lists of the config. A sidecar may leave things out.

/** Lists of the config come as an object by name or as a list. @param {any} all @returns {[string, any][]} */
export function entries(all) {
  if (!all) return [];
  if (Array.isArray(all)) return all.map((one, i) => [one.name ?? one.queue ?? String(i + 1), one]);
  return Object.entries(all);
}
