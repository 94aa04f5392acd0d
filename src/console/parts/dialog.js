// A dialog asks, says what will happen, sends, and shows what the API said.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { Problem } from "./problem.js";

/** @param {{ title: string, onClose: () => void, wide?: boolean, children?: any }} props */
export function Dialog({ title, onClose, wide, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog
    ref=${box}
    class=${wide ? "wide-dialog" : ""}
    aria-label=${title}
    onCancel=${(/** @type {Event} */ event) => {
      event.preventDefault();
      onClose();
    }}
  >
    <header>
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
 * @property {boolean} [wide]
 */

/** @param {Ask} props */
export function Confirm({ title, button, danger, text, fields, reason = true, disabled, send, onDone, onClose, wide }) {
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  /** @param {Event} event */
  const submit = async event => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      onDone(await send(why.trim()));
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose} wide=${wide}>
    <form onSubmit=${submit} class="stack">
      ${text && html`<div>${text}</div>`} ${fields}
      ${
        reason &&
        html`<label class="field"
          ><span>Reason <small>for the audit</small></span>
          <input
            value=${why}
            maxlength="1000"
            autofocus=${!fields}
            onInput=${(/** @type {any} */ e) => setWhy(e.target.value)}
          />
        </label>`
      }
      <${Problem} error=${error} />
      <div class="buttons end">
        <button type="button" onClick=${onClose}>Close</button>
        <button class=${danger ? "danger" : "primary"} disabled=${busy || !!disabled} title=${disabled || ""}>
          ${busy ? "Sending…" : button}
        </button>
      </div>
    </form>
  <//>`;
}
