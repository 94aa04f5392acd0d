// What a person chose, kept in the browser: times as UTC or local, live or not.
import { atom } from "./atom.js";

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
