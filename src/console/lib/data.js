// Reading for a page: what it showed stays until the new answer is here.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api.js";

/**
 * @template T
 * @typedef {{ data: T | null, error: any, loading: boolean, stale: boolean, reload: () => Promise<void> }} Loaded
 */

/** A reading under way. @typedef {{ again: boolean, aborter: AbortController, ended: Promise<void> }} Reading */

/**
 * @param {string | null} path null: nothing to read, or not yet
 * @param {(path: string, options: { signal: AbortSignal }) => Promise<any>} [read]
 * @returns {Loaded<any>}
 */
export function useData(path, read = get) {
  const [state, setState] = useState(/** @type {any} */ ({ path: null, data: null, error: null, loading: true }));
  const underWay = useRef(/** @type {Reading | null} */ (null));
  const asked = useRef({ path, read });
  asked.current = { path, read };

  const reload = useCallback(() => {
    const { path, read } = asked.current;
    if (path === null) return Promise.resolve();
    // It is not begun anew: where reading takes longer than the next change does, nothing would ever be shown. And what
    // the page gives up the server would finish all the same.
    if (underWay.current) {
      underWay.current.again = true;
      return underWay.current.ended;
    }
    /** @type {Reading} */
    const mine = { again: false, aborter: new AbortController(), ended: Promise.resolve() };
    const { signal } = mine.aborter;
    const once = async () => {
      mine.again = false;
      setState((/** @type {any} */ was) => ({ ...was, loading: true }));
      try {
        const data = await read(path, { signal });
        if (!signal.aborted) setState({ path, data, error: null, loading: false });
      } catch (error) {
        if (signal.aborted) return;
        setState((/** @type {any} */ was) => ({
          path,
          data: was.path === path ? was.data : null,
          error,
          loading: false,
        }));
      }
    };
    const all = async () => {
      do await once();
      while (mine.again && !signal.aborted);
      if (underWay.current === mine) underWay.current = null;
    };
    underWay.current = mine;
    mine.ended = all();
    return mine.ended;
  }, []);

  useEffect(() => {
    reload();
    return () => {
      underWay.current?.aborter.abort();
      underWay.current = null;
    };
  }, [path]);
  // What is shown may be of another address than the one that is asked for now.
  return { data: state.data, error: state.error, loading: state.loading, stale: state.path !== path, reload };
}

/** Sends something, one at a time: whether it is under way, and why the last one failed. @param {any} [begin] an error to begin with */
export function useSend(begin = null) {
  const [state, setState] = useState({ busy: false, error: begin });
  const send = async (/** @type {() => Promise<any>} */ work) => {
    setState({ busy: true, error: null });
    try {
      await work();
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return { ...state, send };
}
