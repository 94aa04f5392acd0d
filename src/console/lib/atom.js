// One value that several components share.
import { useEffect, useState } from "preact/hooks";

/**
 * @template T
 * @typedef {{ get: () => T, set: (value: T) => void, subscribe: (listener: () => void) => () => void }} Atom
 */

/**
 * @template T
 * @param {T} value
 * @returns {Atom<T>}
 */
export function atom(value) {
  /** @type {Set<() => void>} */
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/**
 * @template T
 * @param {Atom<T>} of
 * @returns {T}
 */
export function useAtom(of) {
  const [, changed] = useState(0);
  useEffect(() => of.subscribe(() => changed(n => n + 1)), [of]);
  return of.get();
}

// What a person chose, kept in the browser: times as UTC or local, live or not.

/** @param {string} name @param {string} otherwise */
function kept(name, otherwise) {
  let value = otherwise;
  try {
    value = localStorage.getItem(name) ?? otherwise;
  } catch {
    // Storage can be forbidden: then a choice lasts as long as the page.
  }
  const pref = atom(value);
  pref.subscribe(() => {
    try {
      localStorage.setItem(name, pref.get());
    } catch {
      // As above.
    }
  });
  return pref;
}

/** "utc" or "local" */
export const zone = kept("rung.zone", "utc");
/** "on" or "off" */
export const liveSwitch = kept("rung.live", "on");
