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

/** @type {Map<string, Set<(data: any) => void>>} */
const listeners = new Map();
/** The task whose page is open: its changes by themselves are told, too. */
let watched = "";
/** @type {EventSource | null} */
let source = null;
/** There was an earlier connection: what has changed since it ended is not known. */
let missed = false;
/** @type {number | undefined} */
let timer;

/** @param {string} name @param {any} data */
function dispatch(name, data) {
  if (name === "trouble") trouble.set(data?.detail ?? "");
  for (const listener of [...(listeners.get(name) ?? [])]) listener(data);
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
    if (missed) dispatch("changes", { more: true });
    missed = true;
  };
  for (const name of ["changes", "ping", "trouble"]) {
    mine.addEventListener(name, event => {
      heard();
      dispatch(name, parse(event.data));
    });
  }
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

/** @param {string} name @param {(data: any) => void} listener */
export function useLive(name, listener) {
  const current = useRef(listener);
  current.current = listener;
  useEffect(() => {
    /** @param {any} data */
    const call = data => current.current(data);
    if (!listeners.has(name)) listeners.set(name, new Set());
    listeners.get(name)?.add(call);
    return () => void listeners.get(name)?.delete(call);
  }, [name]);
}

/** Reads again every so often, as long as there are live updates: counts are not told. @param {number} ms @param {() => void} reload */
export function useEvery(ms, reload) {
  const current = useRef(reload);
  current.current = reload;
  useEffect(() => {
    const timer = setInterval(() => source && current.current(), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

/**
 * Reads again when an event says that what is shown has changed: at once, then at most once in `every` milliseconds, and
 * less often where reading takes long.
 * @param {(changes: any) => boolean} concerns
 * @param {() => Promise<any>} reload
 * @param {number} [every]
 */
export function useChanges(concerns, reload, every = 1000) {
  const state = useRef({
    next: 0,
    wanted: false,
    reading: false,
    timer: /** @type {number | undefined} */ (undefined),
  });
  const current = useRef(reload);
  current.current = reload;
  const read = async () => {
    const mine = state.current;
    mine.timer = undefined;
    mine.wanted = false;
    // Switched off or hidden meanwhile: the next connection says that something may have been missed.
    if (!source) return;
    mine.reading = true;
    const began = Date.now();
    await current.current();
    const pause = Math.min((Date.now() - began) * READING_SHARE, LONGEST_PAUSE_MS);
    mine.reading = false;
    mine.next = began + Math.max(every, pause);
    if (mine.wanted) plan();
  };
  const plan = () => {
    const mine = state.current;
    mine.wanted = true;
    if (mine.timer !== undefined || mine.reading) return;
    mine.timer = setTimeout(read, Math.max(0, mine.next - Date.now()));
  };
  useEffect(
    () => () => {
      clearTimeout(state.current.timer);
      state.current.wanted = false;
    },
    [],
  );
  useLive("changes", changes => {
    if (concerns(changes)) plan();
  });
}

// Reading for a page: what it showed stays until the new answer is here.

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
