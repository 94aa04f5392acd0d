// What strangers wrote, made harmless to look at: control characters and those that turn the direction of text are shown,
// not obeyed.
import { useAtom, zone } from "../lib/atom.js";
import { relative, useNow, written, zoneName } from "../lib/format.js";
import { html } from "../lib/html.js";
import { to } from "../lib/router.js";

const NAMES = /** @type {Record<number, string>} */ ({
  0x001b: "escape",
  0x00ad: "soft hyphen",
  0x061c: "Arabic letter mark",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "pop directional formatting",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "pop directional isolate",
  0xfeff: "byte order mark",
});

/* eslint-disable no-control-regex */
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
/* eslint-enable no-control-regex */

/** What is shown of a character, and its name. @param {string} char */
function unseen(char) {
  const code = char.codePointAt(0) ?? 0;
  const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const picture = code < 0x20 ? String.fromCodePoint(0x2400 + code) : code === 0x7f ? "\u2421" : number;
  return { shown: picture, named: `${number} ${NAMES[code] ?? "control character"}` };
}

/** The text, with the characters that one would not see. Line breaks and tabs stay if it has lines. @param {string} text @param {boolean} lines */
function pieces(text, lines) {
  const found = [];
  let last = 0;
  for (const { 0: char, index } of text.matchAll(UNSEEN)) {
    if (lines && (char === "\n" || char === "\t" || (char === "\r" && text[index + 1] === "\n"))) continue;
    const { shown, named } = unseen(char);
    found.push(text.slice(last, index), html`<span class="unseen" title=${named}>${shown}</span>`);
    last = index + char.length;
  }
  return [...found, text.slice(last)];
}

/** The same as one string, for titles and labels. @param {any} text */
export const plain = text => String(text ?? "").replace(UNSEEN, char => unseen(char).shown);

/**
 * An error in one line. A text often begins with its type: it is not said twice.
 * @param {string | null} type
 * @param {string | null} error
 */
export function firstLine(type, error) {
  const first = (error ?? "").split("\n")[0];
  return { type: type && !first.startsWith(type) ? type : "", first };
}

// A stranger's text: never markup, and its unseen characters are shown.

/** An error: its first line, the others on demand. @param {{ value: string | null }} props */
export function ErrorText({ value }) {
  const { first } = firstLine("", value);
  if (!value || first === value) return html`<${Text} value=${value} />`;
  return html`<details>
    <summary><${Text} value=${first} most=${300} /></summary>
    <pre tabindex="0"><${Text} value=${value} lines /></pre>
  </details>`;
}

/** @param {{ value: any, lines?: boolean, most?: number }} props */
export function Text({ value, lines = false, most = 200000 }) {
  if (value === null || value === undefined || value === "") return html`<span class="faint">–</span>`;
  const text = String(value);
  return html`<bdi>${pieces(text.slice(0, most), lines)}${text.length > most && "…"}</bdi>`;
}

/** @param {{ queue: string | null | undefined }} props */
export const QueueLink = ({ queue }) =>
  queue ? html`<a href=${to("queues", queue)}><${Text} value=${queue} /></a>` : html`<${Text} value="" />`;

/** A time, relative, with the whole of it on hover; or written out. @param {{ at: string | null | undefined, full?: boolean, ms?: boolean }} props */
export function Time({ at, full = false, ms = false }) {
  useAtom(zone);
  const now = useNow();
  if (!at) return html`<span class="faint">–</span>`;
  if (full) return html`<time datetime=${at} title=${relative(at, now)}>${written(at, { ms })}</time>`;
  return html`<time datetime=${at} title="${written(at, { ms: true })} ${zoneName()}">${relative(at, now)}</time>`;
}

// A state: a shape, a colour and always its word.

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
  return html`<span class="badge ${colour}"><span aria-hidden="true">${shape}</span> ${label || word || is}</span>`;
}
