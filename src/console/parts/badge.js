// A state: a shape, a colour and always its word.
import { html } from "../lib/html.js";

const LOOKS = /** @type {Record<string, [string, string, string?]>} */ ({
  scheduled: ["blue", "○"],
  publishing: ["blue", "▸"],
  awaiting: ["violet", "◔"],
  succeeded: ["green", "✓"],
  parked: ["red", "■"],
  cancelled: ["gray", "✕"],
  discarded: ["gray", "✕"],
  new: ["red", "●"],
  known: ["gray", "○"],
  working: ["blue", "◔"],
  ignored: ["gray", "–"],
  resolved: ["green", "✓"],
  regressed: ["red", "↩"],
  flowing: ["green", "▸"],
  paused: ["amber", "‖", "paused"],
  outside_window: ["amber", "◷", "outside window"],
  breaker_open: ["red", "↯", "breaker open"],
  breaker_half_open: ["amber", "↯", "breaker half open"],
  rate_limited: ["blue", "≡", "rate limited"],
  running: ["blue", "▸"],
  done: ["green", "✓"],
  aborted: ["red", "✕"],
  stopped: ["red", "■"],
  pending: ["violet", "◔", "awaiting an answer"],
  failed: ["red", "✕"],
  timed_out: ["red", "◷", "timed out"],
  returned: ["red", "↩"],
  replaced: ["gray", "✎", "replaced by an edited copy"],
  live: ["green", "●"],
  dead: ["red", "✕"],
  left: ["gray", "–"],
});

/** A task that an edited copy has replaced was not given up. @param {any} task */
export const stateOf = task => (task.state === "discarded" && task.replaced_by ? "replaced" : task.state);

/** The colour of a state, as a class. @param {string} is */
export const toneOf = is => LOOKS[is]?.[0] ?? "gray";

/** @param {{ is: string, label?: string }} props */
export function Badge({ is, label }) {
  const [colour, shape, word] = LOOKS[is] ?? ["gray", "·"];
  return html`<span class="badge ${colour}"><span aria-hidden="true">${shape}</span> ${label ?? word ?? is}</span>`;
}
