// The counts of tasks, and the queues: one reading for all that show them. The sidecar reads them at most once a second.
import { useEffect } from "preact/hooks";
import { get } from "./api.js";
import { atom, useAtom } from "./atom.js";
import { useEvery } from "./live.js";
import { setNow } from "./time.js";

const EVERY_MS = 2500;

const figures = atom(/** @type {{ data: any, error: any }} */ ({ data: null, error: null }));
/** @type {Promise<void> | null} */
let reading = null;

async function read() {
  try {
    const data = await get("/v1/overview");
    setNow(data.now);
    figures.set({ data, error: null });
  } catch (error) {
    figures.set({ data: figures.get().data, error });
  }
  reading = null;
}

/** @returns {Promise<void>} */
function reload() {
  reading ??= read();
  return reading;
}

export function useFigures() {
  const now = useAtom(figures);
  useEffect(() => void reload(), []);
  useEvery(EVERY_MS, reload);
  return { ...now, reload };
}
