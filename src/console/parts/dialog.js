// A dialog asks, says what will happen, sends, and shows what the API said.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { useSend } from "../lib/data.js";
import { Field } from "./field.js";
import { Problem } from "./problem.js";

/** @param {{ title: string, onClose: () => void, children?: any }} props */
export function Dialog({ title, onClose, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog
    ref=${box}
    aria-label=${title}
    onCancel=${(/** @type {Event} */ event) => {
      event.preventDefault();
      onClose();
    }}
  >
    <header class="row between head">
      <h2>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>✕</button>
    </header>
    ${children}
  </dialog>`;
}

/**
 * @typedef {object} Ask
 * @property {string} title
 * @property {string} button what the button says, with the number of tasks that it touches
 * @property {boolean} [danger]
 * @property {any} [text]
 * @property {any} [fields] between the text and the reason
 * @property {boolean} [reason] whether a reason may be given
 * @property {string} [disabled] why it cannot be sent yet
 * @property {(reason: string) => Promise<any>} send
 * @property {(answer: any) => void} onDone
 * @property {() => void} onClose
 */

/** @param {Ask} props */
export function Confirm({ title, button, danger, text, fields, reason = true, disabled, send, onDone, onClose }) {
  const [why, setWhy] = useState("");
  const { busy, error, send: sendIt } = useSend();
  /** @param {Event} event */
  const submit = event => {
    event.preventDefault();
    sendIt(async () => onDone(await send(why.trim())));
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit} class="stack">
      ${text && html`<div>${text}</div>`} ${fields}
      ${
        reason &&
        html`<${Field}
          label="Reason"
          hint="for the audit"
          maxlength="1000"
          value=${why}
          onInput=${setWhy}
          autofocus=${!fields}
        />`
      }
      <${Problem} error=${error} />
      <div class="row end">
        <button type="button" onClick=${onClose}>Close</button>
        <button class=${danger ? "danger" : "primary"} disabled=${busy || !!disabled} title=${disabled || ""}>
          ${busy ? "Sending…" : button}
        </button>
      </div>
    </form>
  <//>`;
}
