import { html } from "../lib/html.js";

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
