// Reading for a page: what it showed stays until the new answer is here.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api.js";

/**
 * @template T
 * @typedef {{ data: T | null, error: any, loading: boolean, stale: boolean, reload: () => void }} Loaded
 */

/**
 * @param {string | null} path null: nothing to read yet
 * @param {(path: string, options: { signal: AbortSignal }) => Promise<any>} [read]
 * @returns {Loaded<any>}
 */
export function useData(path, read = get) {
  const [state, setState] = useState(/** @type {any} */ ({ path: null, data: null, error: null, loading: true }));
  const aborter = useRef(/** @type {AbortController | null} */ (null));
  const reader = useRef(read);
  reader.current = read;
  const reload = useCallback(() => {
    aborter.current?.abort();
    if (path === null) return;
    const mine = new AbortController();
    aborter.current = mine;
    setState((/** @type {any} */ was) => ({ ...was, loading: true }));
    reader.current(path, { signal: mine.signal }).then(
      data => mine.signal.aborted || setState({ path, data, error: null, loading: false }),
      error => {
        if (mine.signal.aborted || error?.name === "AbortError") return;
        setState((/** @type {any} */ was) => ({
          path,
          data: was.path === path ? was.data : null,
          error,
          loading: false,
        }));
      },
    );
  }, [path]);
  useEffect(() => {
    reload();
    return () => aborter.current?.abort();
  }, [reload]);
  // What is shown may be of another address than the one that is asked for now.
  return { data: state.data, error: state.error, loading: state.loading, stale: state.path !== path, reload };
}
