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

/** @param {any} config @param {string} queue @returns {{ ladderName: string, ladder: any, own: any, pattern: string }} */
export function configOf(config, queue) {
  const queues = entries(config?.queues);
  const exact = queues.find(([name]) => name === queue);
  // Of several patterns the one that says most.
  const byPattern = queues
    .filter(([name]) => name.includes("*") && matches(name, queue))
    .sort(([a], [b]) => b.length - a.length)[0];
  const other = queues.find(([name]) => name.startsWith("("));
  const found = exact ?? byPattern ?? other;
  const own = found?.[1] ?? {};
  const named = own.ladder ?? config?.defaults?.ladder ?? "default";
  const ladderName = typeof named === "string" ? named : "(its own)";
  const ladder = typeof named === "string" ? entries(config?.ladders).find(([name]) => name === named)?.[1] : named;
  return { ladderName, ladder: ladder ?? null, own, pattern: found?.[0] ?? "" };
}
