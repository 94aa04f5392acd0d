// Server-sent events. In a hidden tab, and while live updates are switched off, there is no connection; after that pages read
// again, for EventSource resumes by itself only where the connection was lost.
import { useEffect, useRef } from "preact/hooks";
import { atom } from "./atom.js";
import { base } from "./base.js";
import { get, withQuery } from "./api.js";
import { parse } from "./json.js";
import { liveSwitch } from "./prefs.js";
import { session } from "./session.js";

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
