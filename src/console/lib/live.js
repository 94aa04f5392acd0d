// Server-sent events. In a hidden tab, and while live updates are switched off, there is no connection; after that pages read
// again, for EventSource resumes by itself only where the connection was lost.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, session, withQuery } from "./api.js";
import { atom, liveSwitch } from "./atom.js";
import { parse } from "./json.js";
import { base } from "./router.js";

/** "off", "hidden", "connecting", "live" or "lost" */
export const liveState = atom("connecting");
/** Why the sidecar has no news; "": it has. */
export const trouble = atom("");

/** Of three `ping`. Without an event for so long the other end is gone, and TCP has not noticed. */
const LONGEST_SILENCE_MS = 45000;
/** Reading again takes at most this share of the time, as for the events themselves. */
const READING_SHARE = 10;
/** But it is not put off for longer: one slow answer, or a laptop that slept, is no reason to. */
const LONGEST_PAUSE_MS = 60000;

/** @type {Set<(changes: any) => void>} */
const listeners = new Set();
/** The task whose page is open: its changes by themselves are told, too. */
let watched = "";
/** @type {EventSource | null} */
let source = null;
/** There was an earlier connection: what has changed since it ended is not known. */
let missed = false;
/** @type {number | undefined} */
let timer;

/** @param {any} changes */
function tell(changes) {
  for (const listener of [...listeners]) listener(changes);
}

/** @param {number} ms @param {() => void} then */
function after(ms, then) {
  clearTimeout(timer);
  timer = setTimeout(then, ms);
}

function connect() {
  const mine = new EventSource(base + withQuery("/v1/events", { watch: watched }));
  source?.close();
  source = mine;
  liveState.set("connecting");
  const heard = () => after(LONGEST_SILENCE_MS, connect);
  heard();
  mine.onopen = () => {
    heard();
    liveState.set("live");
    trouble.set("");
    if (missed) tell({ more: true });
    missed = true;
  };
  mine.addEventListener("ping", heard);
  mine.addEventListener("changes", event => (heard(), tell(parse(event.data))));
  mine.addEventListener("trouble", event => (heard(), trouble.set(parse(event.data)?.detail ?? "")));
  mine.onerror = () => {
    // The server ends it every few minutes: that is no loss.
    liveState.set(liveState.get() === "live" ? "connecting" : "lost");
    if (mine.readyState !== EventSource.CLOSED) return;
    // It was refused, and does not say why. If nobody is signed in any more, this answer does.
    liveState.set("lost");
    get("/v1/you").catch(() => {});
    after(2000 + Math.random() * 8000, connect);
  };
}

/** @param {string} state */
function disconnect(state) {
  clearTimeout(timer);
  source?.close();
  source = null;
  trouble.set("");
  liveState.set(state);
}

function decide() {
  if (!session.get().signed_in || liveSwitch.get() !== "on") disconnect("off");
  else if (document.hidden) disconnect("hidden");
  else if (!source || liveState.get() === "lost") connect();
}

export function startLive() {
  liveSwitch.subscribe(decide);
  session.subscribe(decide);
  document.addEventListener("visibilitychange", decide);
  addEventListener("pagehide", () => disconnect("hidden"));
  addEventListener("pageshow", decide);
  decide();
}

/** As long as the page of this task is open, events tell of it. @param {string} id */
export function useWatch(id) {
  useEffect(() => {
    watched = id;
    if (source) connect();
    return () => {
      watched = "";
    };
  }, [id]);
}

/** Reads again every so often, as long as there are live updates: counts are not told. @param {number | null} ms null: not now @param {() => void} reload */
export function useEvery(ms, reload) {
  useEffect(() => {
    if (ms === null) return undefined;
    const timer = setInterval(() => source && reload(), ms);
    return () => clearInterval(timer);
  }, [ms, reload]);
}

// Reading for a page: what it showed stays until the new answer is here.

/** @typedef {{ data: any, error: any, loading: boolean, stale: boolean, reload: () => Promise<void> }} Loaded */

/** A reading under way. @typedef {{ again: boolean, aborter: AbortController, ended: Promise<void> }} Reading */

/**
 * @typedef {object} How
 * @property {(path: string, options: { signal: AbortSignal }) => Promise<any>} [read]
 * @property {(changes: any) => any} [on] whether an event says that what is shown has changed: then it is read again
 * @property {number} [every] at most once in so many milliseconds, and less often where reading takes long
 */

/**
 * @param {string | null} path null: nothing to read, or not yet
 * @param {How} [how]
 * @returns {Loaded}
 */
export function useData(path, { read = get, on, every = 1000 } = {}) {
  const [state, setState] = useState(/** @type {any} */ ({ path: null, data: null, error: null, loading: true }));
  const underWay = useRef(/** @type {Reading | null} */ (null));
  const next = useRef(0);
  const asked = useRef({ path, read, on, every });
  asked.current = { path, read, on, every };

  const reload = useCallback(() => {
    const { path, read, every } = asked.current;
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
      const began = Date.now();
      setState((/** @type {any} */ was) => ({ ...was, loading: true }));
      let data = null;
      let error = null;
      try {
        data = await read(path, { signal });
      } catch (why) {
        error = why;
      }
      if (signal.aborted) return;
      setState((/** @type {any} */ was) => ({
        path,
        data: error && was.path === path ? was.data : data,
        error,
        loading: false,
      }));
      next.current = began + Math.max(every, Math.min((Date.now() - began) * READING_SHARE, LONGEST_PAUSE_MS));
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

  useEffect(() => {
    let planned = false;
    /** @type {number | undefined} */
    let timer;
    /** @param {any} changes */
    const hear = async changes => {
      const { on } = asked.current;
      if (planned || !on || !(changes.more || on(changes))) return;
      planned = true;
      // What is being read may be older than the change.
      await underWay.current?.ended;
      if (!listeners.has(hear)) return;
      timer = setTimeout(() => {
        planned = false;
        // Switched off or hidden meanwhile: the next connection says that something may have been missed.
        if (source) reload();
      }, next.current - Date.now());
    };
    listeners.add(hear);
    return () => {
      listeners.delete(hear);
      clearTimeout(timer);
    };
  }, []);
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
