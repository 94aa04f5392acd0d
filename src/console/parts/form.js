// Buttons, fields, dialogs, and what is said when something was done.
import { useEffect, useRef, useState } from "preact/hooks";
import { atom, useAtom } from "../lib/atom.js";
import { html } from "../lib/html.js";
import { useSend } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { Problem } from "./page.js";

/** A button for something that one may not always do: then it is disabled, and says why. @param {{ why?: string, onClick?: () => void, href?: string, class?: string, children?: any, label?: string }} props */
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
 * What a form has, and what its fields are tied to by name.
 * @template {Record<string, any>} T
 * @param {T} begin
 */
export function useForm(begin) {
  const [form, setForm] = useState(begin);
  const field = (/** @type {string} */ name) => ({
    name,
    value: form[name],
    onInput: (/** @type {any} */ value) => setForm(was => ({ ...was, [name]: value })),
  });
  return { form, setForm, field };
}

/** What ties a field to the address; what is typed stays there until then. @param {URLSearchParams} query @param {string} name */
export function useAddress(query, name) {
  const given = query.get(name) ?? "";
  const [value, onInput] = useState(given);
  useEffect(() => onInput(given), [given]);
  const onChange = (/** @type {string} */ text) => setQuery({ [name]: text.trim(), cursor: null });
  return { name, value, onInput, onChange };
}

/** Sending it loads no other page. @param {{ onSubmit: () => any, [more: string]: any }} props */
export const Form = ({ onSubmit, ...more }) =>
  html`<form onSubmit=${(/** @type {Event} */ e) => (e.preventDefault(), onSubmit())} ...${more} />`;

/**
 * A text, or with `options` a choice, or with `rows` several lines. Everything else is as an input has it.
 * @param {{ label: string, hint?: string, value: any, onInput?: (value: string) => void, options?: (string | [string, string])[],
 *   list?: string[], name?: string, onChange?: (value: string) => void, rows?: number, [more: string]: any }} props
 */
export function Field({ label, hint, onInput, options, list, name = label, onChange, rows, ...more }) {
  const listId = list?.length ? `list-${name.replace(/\W/g, "-")}` : undefined;
  const given = (/** @type {((value: string) => void) | undefined} */ to) =>
    to && ((/** @type {any} */ e) => to(e.target.value));
  const both = { onInput: given(onInput), onChange: given(onChange) };
  const text = { name, spellcheck: false, autocomplete: "off", ...more, ...both };
  return html`<label class="field"
    ><span>${label} ${hint && html`<small>${hint}</small>`}</span>
    ${
      options
        ? html`<select name=${name} value=${more.value} onChange=${given(onChange ?? onInput)}>
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

/** @param {{ value: boolean, onInput: (on: boolean) => void, children?: any }} props */
export const Check = ({ value, onInput, children }) =>
  html`<label class="row"
    ><input type="checkbox" checked=${value} onChange=${(/** @type {any} */ e) => onInput(e.target.checked)} />
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
  return html`<dialog ref=${box} aria-label=${title} onClose=${onClose}>
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
 * @property {string} [disabled] why it cannot be sent yet
 * @property {(given: { reason?: string }) => Promise<any>} send
 * @property {(answer: any) => string} said what is said then
 * @property {() => any} onDone
 * @property {() => void} onClose
 */

/** @param {Ask} props */
export function Confirm({ title, button, danger, text, fields, disabled, send, said, onDone, onClose }) {
  const [reason, setReason] = useState("");
  const { busy, error, send: sendIt } = useSend();
  const submit = () =>
    sendIt(async () => {
      say(said(await send(reason.trim() ? { reason: reason.trim() } : {})));
      onClose();
      onDone();
    });
  const more = { maxlength: 1000, autofocus: !fields };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <${Form} onSubmit=${submit} class="stack">
      ${text && html`<div>${text}</div>`} ${fields}
      <${Field} label="Reason" hint="for the audit" value=${reason} onInput=${setReason} ...${more} />
      <${Problem} error=${error} />
      <div class="row end">
        <button type="button" onClick=${onClose}>Close</button>
        <button class=${danger ? "red" : "primary"} disabled=${busy || !!disabled} title=${disabled || ""}>
          ${busy ? "Sending…" : button}
        </button>
      </div>
    <//>
  <//>`;
}

// Says that something was done, for a moment and to screen readers.

const saying = atom("");
/** @type {number | undefined} */
let timer;

/** @param {string} text */
export function say(text) {
  saying.set(text);
  clearTimeout(timer);
  timer = setTimeout(() => saying.set(""), 6000);
}

export function Toast() {
  const text = useAtom(saying);
  return html`<div class="toast ${text ? "shown" : ""}" role="status" aria-live="polite">${text}</div>`;
}
