// Server-sent events, read with fetch: unlike EventSource it can resume with Last-Event-ID after the page closed the
// stream itself, which it does in a hidden tab and when live updates are switched off.
import { useEffect, useRef, useState } from "preact/hooks";
import { atom } from "./atom.js";
import { base } from "./base.js";
import { connection, withQuery } from "./api.js";
import { parse } from "./json.js";
import { liveSwitch } from "./prefs.js";
import { session } from "./session.js";
import { setNow } from "./time.js";

/** "off", "hidden", "connecting", "live", "lost" or "none" (a sidecar without events) */
export const liveState = atom("connecting");
/** Why the sidecar has no news; "": it has. */
export const trouble = atom("");

/** Three pings of the server. Without a byte for so long the other end is gone, and TCP has not noticed. */
const LONGEST_SILENCE_MS = 45000;
/** Reading again takes at most this share of the time, as for the events themselves. */
const READING_SHARE = 10;
/** But it is not put off for longer: one slow answer, or a laptop that slept, is no reason to. */
const LONGEST_PAUSE_MS = 60000;

/** @type {Map<string, Set<(data: any) => void>>} */
const listeners = new Map();
/** The last event of each kind of this connection, for a page that is opened later. @type {Map<string, any>} */
const latest = new Map();
let lastId = "";
let attempt = 0;
/** The task whose page is open: its changes by themselves are told, too. */
let watched = "";
/** @type {AbortController | null} */
let running = null;
/** @type {number | undefined} */
let waiting;

/** @param {string} name @param {any} data */
function dispatch(name, data) {
  if (data?.now) setNow(data.now);
  if (name === "trouble") trouble.set(data?.detail ?? "");
  else if (name === "overview") trouble.set("");
  if (name !== "changes") latest.set(name, data);
  for (const listener of [...(listeners.get(name) ?? [])]) listener(data);
}

/** @param {string} block the lines of one event */
function take(block) {
  let name = "message";
  let data = "";
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const field = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") name = value;
    else if (field === "id") lastId = value;
    else if (field === "data") data += (data ? "\n" : "") + value;
  }
  if (!data) return;
  try {
    dispatch(name, parse(data));
  } catch (error) {
    console.warn("an event that is not JSON", error);
  }
}

/** @param {ReadableStream<Uint8Array>} stream @param {() => void} heard */
async function readAll(stream, heard) {
  const reader = stream.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    rest = (rest + value).replace(/\r\n?/g, "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    blocks.forEach(take);
  }
}

async function connect() {
  clearTimeout(waiting);
  const mine = new AbortController();
  running = mine;
  liveState.set("connecting");
  /** @type {number | undefined} */
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => mine.abort(), LONGEST_SILENCE_MS);
  };
  heard();
  try {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const response = await fetch(base + withQuery("/v1/events", { watch: watched }), {
      headers,
      signal: mine.signal,
      credentials: "same-origin",
    });
    if (running !== mine) return;
    if (response.status === 404 || response.status === 405) {
      liveState.set("none");
      return;
    }
    if (response.status === 401) {
      running = null;
      connection.onSignedOut();
      return;
    }
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    liveState.set("live");
    trouble.set("");
    attempt = 0;
    const began = Date.now();
    heard();
    await readAll(response.body, heard);
    // It ends every few minutes: that is no loss.
    if (Date.now() - began < 5000) throw new Error("the stream ended at once");
    if (running === mine) connect();
  } catch {
    // It was ended on purpose, or another has taken its place.
    if (running !== mine) return;
    latest.clear();
    liveState.set("lost");
    attempt++;
    waiting = setTimeout(connect, Math.min(15000, 500 * 2 ** attempt) * (0.5 + Math.random() / 2));
  } finally {
    clearTimeout(silence);
  }
}

/** @param {string} state */
function disconnect(state) {
  clearTimeout(waiting);
  running?.abort();
  running = null;
  // Without a connection they grow old: what is read is newer.
  latest.clear();
  trouble.set("");
  liveState.set(state);
}

function decide() {
  if (!session.get().signed_in) disconnect("off");
  else if (liveSwitch.get() !== "on") disconnect("off");
  else if (document.hidden) disconnect("hidden");
  else if (!running || liveState.get() === "lost") connect();
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
    if (running) {
      disconnect("connecting");
      connect();
    }
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
    if (!running) return;
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
