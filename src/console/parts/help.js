import { html } from "../lib/html.js";
import { helpOpen, PAGES } from "../lib/keys.js";
import { Dialog } from "./dialog.js";

const KEYS = [
  ["/", "search"],
  ["j k", "next or previous row"],
  ["Enter", "open the row"],
  ["x", "choose the row"],
  ["Esc", "leave a field, close a dialog"],
  ["?", "this help"],
  ...PAGES.map(([key, name]) => [`g ${key}`, name]),
];

const WORDS = [
  ["Task", "a message that Rung sends again, with its whole history"],
  ["Ladder", "the delays before each retry"],
  ["Parked", "out of retries; waits for a person"],
  ["Cause", "failures of a queue with the same error"],
  ["Redrive", "send parked tasks again, now"],
  ["Canary", "the first few of a redrive; the others follow only if all of these succeed"],
  ["Gate", "what holds a queue back: a pause, a window, a breaker, a rate"],
];

export const Help = () =>
  html`<${Dialog} title="Help" onClose=${() => helpOpen.set(false)}>
    <div class="grid help">
      ${list("Keys", KEYS, key => key.split(" ").map(one => html`<kbd>${one}</kbd> `))}
      ${list("Words", WORDS, word => word)}
    </div>
  <//>`;

/** @param {string} title @param {string[][]} rows @param {(name: string) => any} shown */
const list = (title, rows, shown) =>
  html`<section>
    <h3>${title}</h3>
    <dl>
      ${rows.map(
        ([name, what]) =>
          html`<div>
            <dt>${shown(name)}</dt>
            <dd>${what}</dd>
          </div>`,
      )}
    </dl>
  </section>`;
