// What is chosen, and what can be done to it. A few are changed one by one; all that match become a bulk.
import { useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { call, withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { refusal } from "../lib/session.js";
import { BULK_ACTIONS, narrowed } from "../lib/filter.js";
import { count, plural } from "../lib/format.js";
import { Act } from "./act.js";
import { Confirm } from "./dialog.js";
import { say } from "./toast.js";

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
          const result = await each(tasks, task =>
            call("POST", `/v1/tasks/${task.retry_id}/${asking.name}`, reason ? { reason } : {}, {
              headers: { "If-Match": `"${task.version}"` },
            }),
          );
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
