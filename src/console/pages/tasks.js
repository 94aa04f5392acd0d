// Tasks: the address is the filter. An action is on some, on all of this page, or on all that match; its button says how many.
import { useEffect, useState } from "preact/hooks";
import { act, get, refusal, withQuery } from "../lib/api.js";
import { count, fromInput, plural, toInput, zoneName } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { navigate, setQuery } from "../lib/router.js";
import { BULK_ACTIONS, FIELDS, FilterChips, fromQuery, narrowed, pairs, STATES } from "../parts/filter.js";
import { Act, Check, Choice, Confirm, Field, Form, useForm } from "../parts/form.js";
import { Empty, Page, Pager } from "../parts/page.js";
import { TaskTable } from "../parts/tables.js";

const SORTS = /** @type {[string, string][]} */ ([
  ["newest", "Newest"],
  ["oldest", "Oldest"],
  ["due", "Next due"],
]);

/** @param {{ query: URLSearchParams }} props */
export function Tasks({ query }) {
  const filter = fromQuery(query);
  const sort = query.get("sort") ?? "newest";
  const limit = ["25", "50", "100", "500"].includes(query.get("limit") ?? "") ? query.get("limit") : "50";
  const path = withQuery("/v1/tasks", { ...filter, sort, limit, cursor: query.get("cursor") });
  const loaded = useData(path, { on: () => true, every: 2000 });
  const { data, stale, reload } = loaded;
  const counted = useData(withQuery("/v1/tasks", { ...filter, count: true }));
  const [chosen, setChosen] = useState(/** @type {Map<string, any>} */ (new Map()));
  const filterText = JSON.stringify(filter);
  useEffect(() => setChosen(new Map()), [filterText]);
  const shown = /** @type {any[]} */ (data?.tasks ?? []);
  const choose = (/** @type {any[]} */ tasks, /** @type {boolean} */ on) => {
    const next = new Map(chosen);
    for (const task of tasks) {
      if (on) next.set(task.retry_id, task);
      else next.delete(task.retry_id);
    }
    setChosen(next);
  };
  const fresh = new Map([...chosen].map(([id, task]) => [id, shown.find(one => one.retry_id === id) ?? task]));
  const any = Object.keys(filter).length > 0;
  return html`<${Page} title="Tasks" of=${loaded}>
    <${TaskFilter} filter=${filter} key=${filterText} />
    <${FilterChips}
      filter=${filter}
      remove=${(/** @type {string} */ name) => setQuery({ [name]: null, cursor: null })}
    />
    <div class="row between head">
      <${Selection}
        filter=${filter}
        chosen=${fresh}
        onClear=${() => setChosen(new Map())}
        onDone=${() => (setChosen(new Map()), reload())}
      />
      <${Choice}
        label="Order"
        options=${SORTS}
        value=${sort}
        choose=${(/** @type {string} */ key) => setQuery({ sort: key === "newest" ? null : key, cursor: null })}
      />
    </div>
    ${
      data &&
      (shown.length
        ? html`<${TaskTable} tasks=${shown} busy=${stale} chosen=${chosen} choose=${choose} />
            <${Pager} query=${query} next=${data.next} shown=${shown.length} what="task" counted=${counted.data} />`
        : any
          ? html`<${Empty} title="No task matches.">
              <p><button type="button" onClick=${() => navigate("/console/tasks")}>Remove the filter</button></p>
            <//>`
          : html`<${Empty} title="No task yet." command="rung attach QUEUE">
              <p>
                Attach a queue: what its consumers reject becomes a task, and is sent again. Or submit a delayed
                message:
              </p>
              <p class="command"><code>rung submit --queue QUEUE --delay 5m --body '{"hello": "world"}'</code></p>
            <//>`)
    }
  <//>`;
}

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
function TaskFilter({ filter }) {
  const { form, field } = useForm(/** @type {Record<string, string>} */ ({ ...filter, headers: headersOf(filter) }));
  const [lists, setLists] = useState(/** @type {Record<string, string[]>} */ ({}));
  const inMore = FIELDS.some(one => one.more && filter[one.name]) || headersOf(filter) !== "";
  const complete = async (/** @type {string} */ name) => {
    if (lists[name] || !COMPLETION[name]) return;
    // Completion is a help: without it one types.
    const found = await COMPLETION[name]().catch(() => []);
    setLists(was => ({ ...was, [name]: found }));
  };
  const apply = () => {
    const named = FIELDS.map(({ name }) => [name, form[name]?.trim()]);
    const headers = Object.entries(pairs(form.headers)).map(([name, value]) => [`header.${name}`, value]);
    const sort = new URLSearchParams(location.search).get("sort");
    navigate(withQuery("/console/tasks", { ...Object.fromEntries([...named, ...headers]), sort }));
  };
  const input = (/** @type {typeof FIELDS[number]} */ { name, label, kind, options }) => {
    const own = { label, ...field(name), value: form[name] ?? "" };
    if (kind === "states") return html`<${States} ...${own} />`;
    if (options) return html`<${Field} ...${own} options=${[["", "any"], ...options]} />`;
    if (kind === "time") {
      const onInput = (/** @type {string} */ value) => own.onInput(fromInput(value));
      const time = { ...own, type: "datetime-local", value: toInput(own.value), onInput };
      return html`<${Field} hint=${zoneName()} ...${time} />`;
    }
    return html`<${Field} ...${own} list=${lists[name]} onFocus=${() => complete(name)} />`;
  };
  return html`<${Form} class="filters grid" onSubmit=${apply}>
    ${FIELDS.filter(one => !one.more).map(input)}
    <details open=${inMore}>
      <summary>More</summary>
      <div class="filters grid">
        ${FIELDS.filter(one => one.more).map(input)}
        <${Field}
          label="Headers"
          hint="name=value, …"
          ...${field("headers")}
          list=${nextHeader(form.headers, lists.headers)}
          onFocus=${() => complete("headers")}
        />
      </div>
    </details>
    <div class="row">
      <button class="primary">Filter</button>
      <a class="button quiet" href="/console/tasks">Reset</a>
    </div>
  <//>`;
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
            html`<${Check} value=${chosen.includes(state)} onInput=${(/** @type {boolean} */ on) => toggle(state, on)}
              >${state}<//
            >`,
        )}
      </div>
    </details>
  </div>`;
}

// What is chosen, and what can be done to it. A few are changed one by one; all that match become a bulk.

const OFFERED = ["redrive", "fire", "cancel", "discard"];
const AT_ONCE = 4;

/** What the API refused. @param {any[]} tasks @param {(task: any) => Promise<any>} send */
async function each(tasks, send) {
  const left = [...tasks];
  /** @type {any[]} */
  const errors = [];
  const work = async () => {
    for (let task = left.shift(); task; task = left.shift()) await send(task).catch(error => errors.push(error));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return errors;
}

/** @param {{ filter: Record<string, string>, chosen: Map<string, any>, onClear: () => void, onDone: () => void }} props */
function Selection({ filter, chosen, onClear, onDone }) {
  // The tasks as they were when the question was asked: what changes meanwhile is not acted on unseen.
  const [asking, setAsking] = useState(/** @type {{ name: string, tasks: any[] } | null} */ (null));
  if (!chosen.size) return html`<${AllThatMatch} filter=${filter} />`;
  const button = (/** @type {string} */ name) => {
    const { label, states, danger } = BULK_ACTIONS[name];
    const able = [...chosen.values()].filter(
      task => states.includes(task.state) && !(name === "redrive" && task.replaced_by),
    );
    const why = able.length
      ? able.map(task => refusal(name, task.queue)).find(Boolean)
      : `None of them is ${states.join(" or ")}.`;
    return html`<${Act}
      class="small ${danger ? "red" : ""}"
      why=${why}
      onClick=${() => setAsking({ name, tasks: able })}
      >${label} ${count(able.length)}<//
    >`;
  };
  return html`<div class="row" role="group" aria-label="Chosen tasks">
    <b>${plural(chosen.size, "task")} chosen</b>
    ${OFFERED.map(button)}
    <button type="button" class="small quiet" onClick=${onClear}>Choose none</button>
    ${asking && html`<${Ask} ...${asking} others=${chosen.size - asking.tasks.length} onClose=${() => setAsking(null)} onDone=${onDone} />`}
  </div>`;
}

/** @param {{ name: string, tasks: any[], others: number, onClose: () => void, onDone: () => void }} props */
function Ask({ name, tasks, others, onClose, onDone }) {
  const action = BULK_ACTIONS[name];
  const what = `${action.label} ${plural(tasks.length, "task")}`;
  return html`<${Confirm}
    title=${what}
    button=${what}
    danger=${action.danger}
    text=${others > 0 && `${plural(others, "chosen task")} in other states stay as they are.`}
    send=${async (/** @type {any} */ given) => {
      const errors = await each(tasks, task => act(task, name, given));
      if (errors.length === tasks.length) throw errors[0];
      return errors;
    }}
    said=${(/** @type {any[]} */ errors) => `${plural(tasks.length - errors.length, "task")} ${action.past}.${errors.length ? ` ${errors.length} refused: ${errors[0].message}` : ""}`}
    onDone=${onDone}
    onClose=${onClose}
  />`;
}

/** @param {{ filter: Record<string, string> }} props */
function AllThatMatch({ filter }) {
  // Without a condition a bulk is refused: nobody means all tasks there are.
  if (!Object.keys(filter).length) return html`<p class="faint">Choose tasks, or filter them, to act on them.</p>`;
  const offered = OFFERED.filter(name => narrowed(name, filter));
  return html`<div class="row" role="group" aria-label="All that match">
    <span>All that match:</span>
    ${offered.map(name => html`<${OnAll} key=${name} name=${name} filter=${filter} />`)}
    ${!offered.length && html`<span class="faint">nothing can be done to tasks in these states</span>`}
  </div>`;
}

/** @param {{ name: string, filter: Record<string, string> }} props */
function OnAll({ name, filter }) {
  const on = narrowed(name, filter) ?? {};
  const counted = useData(withQuery("/v1/tasks", { ...on, count: true }));
  const n = counted.data?.count;
  const why =
    refusal(name, filter.queue ?? null) || refusal("bulk", filter.queue ?? null) || (n === 0 ? "No task matches." : "");
  const number = n === undefined ? "…" : count(n) + (counted.data.or_more ? "+" : "");
  return html`<${Act}
    class="small ${BULK_ACTIONS[name].danger ? "red" : ""}"
    href=${withQuery("/console/act", { action: name, ...filter })}
    why=${why}
    >${BULK_ACTIONS[name].label} ${number}…<//
  >`;
}
