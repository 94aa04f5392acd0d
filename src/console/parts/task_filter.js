import { useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { get, withQuery } from "../lib/api.js";
import { FIELDS, STATES } from "../lib/filter.js";
import { navigate } from "../lib/router.js";
import { fromInput, toInput, zoneName } from "../lib/time.js";
import { Check, Field } from "./field.js";

/** What there is of a field: read when it is entered, the largest first. @type {Record<string, () => Promise<string[]>>} */
const COMPLETION = {
  queue: () => groups("queue"),
  error_type: () => groups("error_type"),
  tag: () => groups("tag"),
  cause: async () =>
    (await get("/v1/causes?with_tasks=true&limit=50")).causes.map((/** @type {any} */ c) => c.cause_id),
  ladder: async () => (await get("/v1/config")).ladders.map((/** @type {any} */ one) => one.name),
  // Names, each ready for its value.
  headers: async () => (await get("/v1/config")).index_headers.map((/** @type {string} */ name) => `${name}=`),
};

/** @param {string} by @returns {Promise<string[]>} */
async function groups(by) {
  const answer = await get(withQuery("/v1/tasks", { state: "parked,scheduled,publishing,awaiting", count: true, by }));
  return answer.groups
    .map((/** @type {any} */ group) => group.value)
    .filter(Boolean)
    .slice(0, 100);
}

/** @param {Record<string, string>} filter */
const headersOf = filter =>
  Object.entries(filter)
    .filter(([name]) => name.startsWith("header."))
    .map(([name, value]) => `${name.slice(7)}=${value}`)
    .join(", ");

/** What may follow the headers typed so far. @param {string} typed @param {string[]} [names] */
function nextHeader(typed, names) {
  const before = typed.slice(0, typed.lastIndexOf(",") + 1);
  return names?.filter(name => !before.includes(name)).map(name => (before ? `${before} ${name}` : name));
}

/** @param {{ filter: Record<string, string> }} props */
export function TaskFilter({ filter }) {
  const [draft, setDraft] = useState(filter);
  const [headers, setHeaders] = useState(headersOf(filter));
  const [lists, setLists] = useState(/** @type {Record<string, string[]>} */ ({}));
  const inMore = FIELDS.some(field => field.more && filter[field.name]) || headersOf(filter) !== "";
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => setDraft({ ...draft, [name]: value });
  const complete = (/** @type {string} */ name) => async () => {
    if (lists[name] || !COMPLETION[name]) return;
    try {
      const found = await COMPLETION[name]();
      setLists(was => ({ ...was, [name]: found }));
    } catch {
      // Completion is a help: without it one types.
    }
  };
  /** @param {Event} event */
  const apply = event => {
    event.preventDefault();
    /** @type {Record<string, string>} */
    const next = {};
    for (const field of FIELDS) if (draft[field.name]?.trim()) next[field.name] = draft[field.name].trim();
    for (const pair of headers.split(",")) {
      const [name, ...value] = pair.split("=");
      if (name.trim() && value.length) next[`header.${name.trim()}`] = value.join("=").trim();
    }
    navigate(withQuery("/console/tasks", { ...next, sort: new URLSearchParams(location.search).get("sort") }));
  };
  /** @param {typeof FIELDS[number]} field */
  const input = field => {
    const value = draft[field.name] ?? "";
    const common = { label: field.label, name: field.name };
    if (field.kind === "states") return html`<${States} value=${value} onInput=${set(field.name)} />`;
    if (field.kind === "choice") {
      return html`<${Field}
        ...${common}
        value=${value}
        onInput=${set(field.name)}
        options=${[["", "any"], ...(field.options ?? []).map(one => [one, one])]}
      />`;
    }
    if (field.kind === "time") {
      const onInput = (/** @type {string} */ v) => set(field.name)(fromInput(v));
      return html`<${Field}
        ...${common}
        hint=${zoneName()}
        type="datetime-local"
        value=${toInput(value)}
        onInput=${onInput}
      />`;
    }
    return html`<${Field}
      ...${common}
      value=${value}
      onInput=${set(field.name)}
      list=${lists[field.name]}
      onFocus=${complete(field.name)}
    />`;
  };
  return html`<form class="filters grid" onSubmit=${apply}>
    ${FIELDS.filter(field => !field.more).map(input)}
    <details open=${inMore}>
      <summary>More</summary>
      <div class="filters grid">
        ${FIELDS.filter(field => field.more).map(input)}
        <${Field}
          label="Headers"
          hint="name=value, …"
          name="headers"
          value=${headers}
          onInput=${setHeaders}
          list=${nextHeader(headers, lists.headers)}
          onFocus=${complete("headers")}
        />
      </div>
    </details>
    <div class="row">
      <button class="primary">Filter</button>
      <a class="button quiet" href="/console/tasks">Reset</a>
    </div>
  </form>`;
}

/** @param {{ value: string, onInput: (value: string) => void }} props */
function States({ value, onInput }) {
  const chosen = value ? value.split(",") : [];
  const toggle = (/** @type {string} */ state, /** @type {boolean} */ on) =>
    onInput(STATES.filter(one => (one === state ? on : chosen.includes(one))).join(","));
  return html`<div class="field">
    <span id="states-label">State</span>
    <details class="menu">
      <summary aria-labelledby="states-label states-value">
        <span id="states-value">${chosen.length ? chosen.join(", ") : "any"}</span>
      </summary>
      <div class="card menu-box">
        ${STATES.map(
          state =>
            html`<${Check}
              checked=${chosen.includes(state)}
              onChange=${(/** @type {boolean} */ on) => toggle(state, on)}
              >${state}<//
            >`,
        )}
      </div>
    </details>
  </div>`;
}
