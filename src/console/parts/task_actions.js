// Everything that can be done to one task; what its state or your role does not allow is disabled, and says why.
import { useState } from "preact/hooks";
import { act, refusal } from "../lib/api.js";
import { fromInput, zoneName } from "../lib/format.js";
import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { Act, Check, Confirm, Field, say } from "./form.js";
import { Held } from "./queues.js";
import { stateOf } from "./text.js";

/**
 * @typedef {object} Action
 * @property {string} name
 * @property {string} label
 * @property {string[]} states
 * @property {string} text
 * @property {string} done
 * @property {string} [look]
 */

/** @type {Action[]} */
const ACTIONS = [
  {
    name: "redrive",
    label: "Redrive",
    states: ["parked", "scheduled", "succeeded", "awaiting", "replaced"],
    text: "It is sent now, and begins at the first level again.",
    done: "It is sent again.",
    look: "primary",
  },
  {
    name: "fire",
    label: "Fire now",
    states: ["scheduled"],
    text: "It is due now instead of later.",
    done: "It is due now.",
  },
  {
    name: "reschedule",
    label: "Reschedule",
    states: ["scheduled"],
    text: "The same attempt, at another time.",
    done: "It is rescheduled.",
  },
  {
    name: "finish",
    label: "Report a result",
    states: ["scheduled", "publishing", "awaiting", "parked", "succeeded"],
    text: "On behalf of the consumer.",
    done: "The result is reported.",
  },
  {
    name: "cancel",
    label: "Cancel",
    states: ["scheduled"],
    text: "It will not be sent.",
    done: "It is cancelled.",
    look: "danger",
  },
  {
    name: "discard",
    label: "Discard",
    states: ["parked", "scheduled"],
    text: "It is given up. It stays in the database until retention deletes it.",
    done: "It is discarded.",
    look: "danger",
  },
];

/** What a state offers first. @param {Action} action @param {any} task */
const offered = (action, task) =>
  action.states.includes(stateOf(task)) &&
  !(action.name === "redrive" && task.state === "awaiting" && !task.silence_held);

/** @param {{ task: any, onDone: () => void }} props */
export function TaskActions({ task, onDone }) {
  const [asking, setAsking] = useState(/** @type {Action | null} */ (null));
  const editWhy =
    refusal("edit", task.queue) || (task.replaced_by ? "An edited copy has replaced it: edit that one." : "");
  return html`
    ${task.state === "parked" && html`<${Act} href="${to("tasks", task.retry_id)}/edit" why=${editWhy}>Edit and retry<//>`}
    ${ACTIONS.filter(action => offered(action, task)).map(
      action =>
        html`<${Act}
          class=${action.look === "primary" && stateOf(task) !== "parked" ? "" : (action.look ?? "")}
          why=${refusal(action.name, task.queue)}
          onClick=${() => setAsking(action)}
          >${action.label}<//
        >`,
    )}
    ${
      asking &&
      html`<${Ask}
        action=${asking}
        task=${task}
        onClose=${() => setAsking(null)}
        onDone=${(/** @type {any} */ answer) => {
          say(answer?.unchanged_because ? `Nothing was changed: ${answer.unchanged_because}` : asking.done);
          setAsking(null);
          onDone();
        }}
      />`
    }
  `;
}

/** @param {{ action: Action, task: any, onClose: () => void, onDone: (answer: any) => void }} props */
function Ask({ action, task, onClose, onDone }) {
  const [form, setForm] = useState({ queue: "", delay: "", at: "", result: "succeeded", error: "", even: false });
  const set = (/** @type {string} */ key) => (/** @type {any} */ value) => setForm({ ...form, [key]: value });
  /** @type {any} */
  let body = {};
  let disabled = "";
  let fields = action.name === "fire" ? html`<${Held} queue=${task.queue} />` : null;
  let label = action.label;
  if (action.name === "redrive") {
    body = {
      ...(form.queue.trim() && { queue: form.queue.trim() }),
      ...(task.replaced_by && form.even && { even_replaced: true }),
      ...(task.state === "succeeded" && form.even && { even_reported: true }),
    };
    const ask = task.replaced_by
      ? "also though an edited copy has replaced it"
      : task.state === "succeeded"
        ? "also if its success was reported"
        : "";
    if (task.replaced_by && !form.even) disabled = "An edited copy has replaced it.";
    fields = html`<${Held} queue=${form.queue.trim() || task.queue} />
      <${Field} label="To another queue" hint="empty: where it came from" value=${form.queue} onInput=${set("queue")} />
      ${ask && html`<${Check} checked=${form.even} onChange=${set("even")}>${ask}<//>`}`;
    if (form.queue.trim()) label = "Redrive elsewhere";
  } else if (action.name === "reschedule") {
    body = form.at ? { at: fromInput(form.at) } : { delay: form.delay.trim() };
    if (!form.at && !form.delay.trim()) disabled = "Say when.";
    fields = html`<div class="grid">
      <${Field} label="In" hint="30m, 2h, 1d" value=${form.delay} onInput=${set("delay")} autofocus />
      <${Field} label="or at" hint=${zoneName()} type="datetime-local" value=${form.at} onInput=${set("at")} />
    </div>`;
  } else if (action.name === "finish") {
    const failed = form.result === "failed";
    body = {
      result: form.result,
      ...(failed && form.error && { error: form.error }),
      ...(failed && task.attempt > 0 && { attempt: task.attempt }),
    };
    fields = html`<${Field}
        label="Result"
        value=${form.result}
        onInput=${set("result")}
        options=${
          task.state === "parked" || task.state === "scheduled"
            ? [["succeeded", "succeeded"]]
            : [
                ["succeeded", "succeeded"],
                ["failed", "failed"],
              ]
        }
      />
      ${failed && html`<${Field} label="Error" value=${form.error} onInput=${set("error")} />`}`;
  }
  return html`<${Confirm}
    title="${label}: task ${task.retry_id}"
    button="${label} 1 task"
    danger=${action.look === "danger"}
    text=${action.text}
    fields=${fields}
    disabled=${disabled}
    send=${(/** @type {string} */ reason) => act(task, action.name, { ...body, ...(reason && { reason }) })}
    onDone=${onDone}
    onClose=${onClose}
  />`;
}
