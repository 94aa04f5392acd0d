// Tasks: the address is the filter. An action is on some, on all of this page, or on all that match; its button says how many.
import { useEffect, useState } from "preact/hooks";
import { act, get, refusal, withQuery } from "../lib/api.js";
import { count, fromInput, plural, toInput, zoneName } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { navigate, setQuery } from "../lib/router.js";
import { BULK_ACTIONS, FIELDS, FilterChips, fromQuery, narrowed, STATES } from "../parts/filter.js";
import { Act, Check, Choice, Confirm, Field, say } from "../parts/form.js";
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

// What is chosen, and what can be done to it. A few are changed one by one; all that match become a bulk.

const OFFERED = ["redrive", "fire", "cancel", "discard"];
const AT_ONCE = 4;

/**
 * @param {any[]} tasks
 * @param {(task: any) => Promise<any>} send
 * @returns {Promise<{ done: number, errors: any[] }>}
 */
async function each(tasks, send) {
  const left = [...tasks];
  /** @type {any[]} */
  const errors = [];
  let done = 0;
  const work = async () => {
    for (let task = left.shift(); task; task = left.shift()) {
      try {
        await send(task);
        done++;
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done, errors };
}

/** @param {{ filter: Record<string, string>, chosen: Map<string, any>, onClear: () => void, onDone: () => void }} props */
export function Selection({ filter, chosen, onClear, onDone }) {
  // The tasks as they were when the question was asked: what changes meanwhile is not acted on unseen.
  const [asking, setAsking] = useState(/** @type {{ name: string, tasks: any[] } | null} */ (null));
  if (!chosen.size) return html`<${AllThatMatch} filter=${filter} />`;
  const able = (/** @type {string} */ action) =>
    [...chosen.values()].filter(
      task => BULK_ACTIONS[action].states.includes(task.state) && !(action === "redrive" && task.replaced_by),
    );
  const why = (/** @type {string} */ action) => {
    const tasks = able(action);
    if (!tasks.length) return `None of them is ${BULK_ACTIONS[action].states.join(" or ")}.`;
    return tasks.map(task => refusal(action, task.queue)).find(Boolean) ?? "";
  };
  const tasks = asking?.tasks ?? [];
  const action = BULK_ACTIONS[asking?.name ?? ""];
  return html`<div class="row" role="group" aria-label="Chosen tasks">
    <b>${plural(chosen.size, "task")} chosen</b>
    ${OFFERED.map(
      name =>
        html`<${Act}
          class="small ${BULK_ACTIONS[name].danger ? "danger" : ""}"
          why=${why(name)}
          onClick=${() => setAsking({ name, tasks: able(name) })}
          >${BULK_ACTIONS[name].label} ${count(able(name).length)}<//
        >`,
    )}
    <button type="button" class="small quiet" onClick=${onClear}>Choose none</button>
    ${
      asking &&
      html`<${Confirm}
        title="${action.label} ${plural(tasks.length, "task")}"
        button="${action.label} ${plural(tasks.length, "task")}"
        danger=${action.danger}
        text=${tasks.length < chosen.size && `${plural(chosen.size - tasks.length, "chosen task")} in other states stay as they are.`}
        send=${async (/** @type {string} */ reason) => {
          const result = await each(tasks, task => act(task, asking.name, reason ? { reason } : {}));
          if (result.errors.length && !result.done) throw result.errors[0];
          return result;
        }}
        onDone=${(/** @type {any} */ result) => {
          setAsking(null);
          const failed = result.errors.length ? ` ${result.errors.length} refused: ${result.errors[0].message}` : "";
          say(`${plural(result.done, "task")} ${action.past}.${failed}`);
          onDone();
        }}
        onClose=${() => setAsking(null)}
      />`
    }
  </div>`;
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
    class="small ${BULK_ACTIONS[name].danger ? "danger" : ""}"
    href=${withQuery("/console/act", { action: name, ...filter })}
    why=${why}
    >${BULK_ACTIONS[name].label} ${number}…<//
  >`;
}
