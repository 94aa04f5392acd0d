// Server-sent events. In a hidden tab, and while live updates are switched off, there is no connection; after that pages read
// again, for EventSource resumes by itself only where the connection was lost.
import { useEffect, useRef, useState } from "preact/hooks";
import { atom } from "./atom.js";
import { base } from "./base.js";
import { get, withQuery } from "./api.js";
import { parse } from "./json.js";
import { liveSwitch } from "./prefs.js";
import { session } from "./session.js";
import { setNow } from "./time.js";

/** "off", "hidden", "connecting", "live" or "lost" */
export const liveState = atom("connecting");
/** Why the sidecar has no news; "": it has. */
export const trouble = atom("");

/** Of nine `activity`. Without an event for so long the other end is gone, and TCP has not noticed. */
const LONGEST_SILENCE_MS = 45000;
/** Reading again takes at most this share of the time, as for the events themselves. */
const READING_SHARE = 10;
/** But it is not put off for longer: one slow answer, or a laptop that slept, is no reason to. */
const LONGEST_PAUSE_MS = 60000;

/** @type {Map<string, Set<(data: any) => void>>} */
const listeners = new Map();
/** The last event of each kind of this connection, for a page that is opened later. @type {Map<string, any>} */
const latest = new Map();
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
  if (data?.now) setNow(data.now);
  if (name === "trouble") trouble.set(data?.detail ?? "");
  else if (name === "overview") trouble.set("");
  if (name !== "changes") latest.set(name, data);
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
  for (const name of ["overview", "activity", "changes", "trouble"]) {
    mine.addEventListener(name, event => {
      heard();
      dispatch(name, parse(event.data));
    });
  }
  mine.onerror = () => {
    latest.clear();
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
  // Without a connection they grow old: what is read is newer.
  latest.clear();
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
    if (latest.has(name)) call(latest.get(name));
    return () => void listeners.get(name)?.delete(call);
  }, [name]);
}

/** The newest event of a kind; null: there is none yet. @param {string} name */
export function useLatest(name) {
  const [event, setEvent] = useState(() => latest.get(name) ?? null);
  useLive(name, setEvent);
  return event;
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
