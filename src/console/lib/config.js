// What the config says of a queue. A sidecar may leave things out.

/** @param {string} pattern @param {string} name */
function matches(pattern, name) {
  const parts = pattern.split("*").map(part => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(name);
}

/** Lists of the config come as an object by name or as a list. @param {any} all @returns {[string, any][]} */
export function entries(all) {
  if (!all) return [];
  if (Array.isArray(all)) return all.map((one, i) => [one.name ?? one.queue ?? String(i + 1), one]);
  return Object.entries(all);
}

/**
 * @typedef {{ ladderName: string, ladder: any, own: any, pattern: string, rules: any[] }} Rules
 */

/** @param {any} config @param {string} queue @returns {Rules} */
export function configOf(config, queue) {
  const queues = entries(config?.queues);
  const exact = queues.find(([name]) => name === queue);
  // Of several patterns the one that says most.
  const byPattern = queues
    .filter(([name]) => name.includes("*") && matches(name, queue))
    .sort(([a], [b]) => b.length - a.length)[0];
  const found = exact ?? byPattern;
  const own = found?.[1] ?? config?.defaults ?? {};
  const ladderName = own.ladder ?? "default";
  const ladder = entries(config?.ladders).find(([name]) => name === ladderName)?.[1] ?? null;
  const rules = entries(config?.rules).find(([name]) => name === own.rules)?.[1]?.rules ?? [];
  return { ladderName, ladder, own, pattern: found?.[0] ?? "", rules };
}
