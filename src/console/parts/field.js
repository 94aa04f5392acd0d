import { html } from "../lib/html.js";

/**
 * @param {{ label: string, hint?: string, value: any, onInput: (value: string) => void, type?: string, options?: string[] | [string, string][],
 *   list?: string[], placeholder?: string, required?: boolean, min?: number, max?: number, step?: string, inputMode?: string, autofocus?: boolean, name?: string,
 *   onFocus?: () => void, onChange?: (value: string) => void }} props
 */
export function Field(props) {
  const { label, hint, value, onInput, type = "text", options, list, name = label, onChange } = props;
  const listId = list?.length ? `list-${name.replace(/\W/g, "-")}` : undefined;
  const input = (/** @type {any} */ e) => onInput(e.target.value);
  return html`<label class="field">
    <span>${label} ${hint && html`<small>${hint}</small>`}</span>
    ${
      options
        ? html`<select value=${value} onChange=${input} name=${name}>
            ${options.map(one => {
              const [key, text] = Array.isArray(one) ? one : [one, one];
              return html`<option value=${key} selected=${key === value}>${text}</option>`;
            })}
          </select>`
        : html`<input
            type=${type}
            name=${name}
            value=${value}
            list=${listId}
            placeholder=${props.placeholder}
            required=${props.required}
            min=${props.min}
            max=${props.max}
            step=${props.step}
            inputmode=${props.inputMode}
            autofocus=${props.autofocus}
            autocomplete="off"
            spellcheck=${false}
            onInput=${input}
            onFocus=${props.onFocus}
            onChange=${onChange && ((/** @type {any} */ e) => onChange(e.target.value))}
          />`
    }
    ${listId && html`<datalist id=${listId}>${list?.map(one => html`<option value=${one}></option>`)}</datalist>`}
  </label>`;
}
