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
];

export function Help() {
  return html`<${Dialog} title="Help" onClose=${() => helpOpen.set(false)}>
    <div class="help">
      <section>
        <h3>Keys</h3>
        <dl>
          ${KEYS.map(
            ([key, what]) =>
              html`<div>
                <dt>${key.split(" ").map(one => html`<kbd>${one}</kbd> `)}</dt>
                <dd>${what}</dd>
              </div>`,
          )}
          ${PAGES.map(
            ([key, name]) =>
              html`<div>
                <dt><kbd>g</kbd> <kbd>${key}</kbd></dt>
                <dd>${name}</dd>
              </div>`,
          )}
        </dl>
      </section>
      <section>
        <h3>Words</h3>
        <dl class="words">
          <div>
            <dt>Task</dt>
            <dd>a message that Rung sends again, with its whole history</dd>
          </div>
          <div>
            <dt>Ladder</dt>
            <dd>the delays before each retry</dd>
          </div>
          <div>
            <dt>Parked</dt>
            <dd>out of retries; waits for a person</dd>
          </div>
          <div>
            <dt>Cause</dt>
            <dd>failures of a queue with the same error</dd>
          </div>
          <div>
            <dt>Redrive</dt>
            <dd>send parked tasks again, now</dd>
          </div>
          <div>
            <dt>Canary</dt>
            <dd>the first few of a redrive; the others follow only if all of these succeed</dd>
          </div>
          <div>
            <dt>Gate</dt>
            <dd>what holds a queue back: a pause, a window, a breaker, a rate</dd>
          </div>
        </dl>
      </section>
    </div>
  <//>`;
}
