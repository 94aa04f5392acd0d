// A button for something that one may not always do: then it is disabled, and says why.
import { useEffect, useRef, useState } from "preact/hooks";
import { atom, useAtom } from "../lib/atom.js";
import { html } from "../lib/html.js";
import { useSend } from "../lib/live.js";
import { Problem } from "./page.js";

/** @param {{ why?: string, onClick?: () => void, href?: string, class?: string, children?: any, label?: string }} props */
export function Act({ why = "", onClick, href, class: look = "", children, label }) {
  if (href && !why) return html`<a class="button ${look}" href=${href} aria-label=${label}>${children}</a>`;
  return html`<button
    type="button"
    class=${look}
    aria-disabled=${why ? "true" : undefined}
    aria-label=${why && label ? `${label}: ${why}` : label}
    title=${why}
    onClick=${() => !why && onClick?.()}
  >
    ${children}
  </button>`;
}

/**
 * A text, or with `options` a choice, or with `rows` several lines. Everything else is as an input has it.
 * @param {{ label: string, hint?: string, value: any, onInput?: (value: string) => void, options?: string[] | [string, string][],
 *   list?: string[], name?: string, onChange?: (value: string) => void, rows?: number, [more: string]: any }} props
 */
export function Field({ label, hint, onInput, options, list, name = label, onChange, rows, ...more }) {
  const listId = list?.length ? `list-${name.replace(/\W/g, "-")}` : undefined;
  const given = (/** @type {((value: string) => void) | undefined} */ to) =>
    to && ((/** @type {any} */ e) => to(e.target.value));
  const text = {
    name,
    spellcheck: false,
    autocomplete: "off",
    ...more,
    onInput: given(onInput),
    onChange: given(onChange),
  };
  return html`<label class="field">
    <span>${label} ${hint && html`<small>${hint}</small>`}</span>
    ${
      options
        ? html`<select name=${name} value=${more.value} onChange=${given(onInput)}>
            ${options.map(one => {
              const [key, word] = Array.isArray(one) ? one : [one, one];
              return html`<option value=${key} selected=${key === more.value}>${word}</option>`;
            })}
          </select>`
        : rows
          ? html`<textarea rows=${rows} ...${text}></textarea>`
          : html`<input type="text" list=${listId} ...${text} />`
    }
    ${listId && html`<datalist id=${listId}>${list?.map(one => html`<option value=${one}></option>`)}</datalist>`}
  </label>`;
}

/** @param {{ checked: boolean, onChange: (on: boolean) => void, children?: any }} props */
export const Check = ({ checked, onChange, children }) =>
  html`<label class="row"
    ><input type="checkbox" checked=${checked} onChange=${(/** @type {any} */ e) => onChange(e.target.checked)} />
    <span>${children}</span></label
  >`;

/** One of a few, as pressed buttons. @param {{ label: string, options: [string, string][], value: string | null, choose: (key: string) => void, children?: any }} props */
export const Choice = ({ label, options, value, choose, children }) =>
  html`<div class="row choice" role="group" aria-label=${label}>
    ${options.map(
      ([key, word]) =>
        html`<button
          type="button"
          class="small"
          aria-pressed=${key === value ? "true" : "false"}
          onClick=${() => choose(key)}
        >
          ${word}
        </button>`,
    )}
    ${children}
  </div>`;

// A dialog asks, says what will happen, sends, and shows what the API said.

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

// Says that something was done, for a moment and to screen readers.

const said = atom("");
/** @type {number | undefined} */
let timer;

/** @param {string} text */
export function say(text) {
  said.set(text);
  clearTimeout(timer);
  timer = setTimeout(() => said.set(""), 6000);
}

export function Toast() {
  const text = useAtom(said);
  return html`<div class="toast ${text ? "shown" : ""}" role="status" aria-live="polite">${text}</div>`;
}
