// Everything that can be done to one task; what its state or your role does not allow is disabled, and says why.
import { useState } from "preact/hooks";
import { act, refusal } from "../lib/api.js";
import { fromInput, zoneName } from "../lib/format.js";
import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { ACTIONS } from "./filter.js";
import { Act, Check, Confirm, Field, useForm } from "./form.js";
import { Held } from "./queues.js";
import { stateOf } from "./text.js";

/** What a state offers first. @param {string} name @param {any} task */
const offered = (name, task) =>
  ACTIONS[name].states.includes(stateOf(task)) &&
  !(name === "redrive" && task.state === "awaiting" && !task.outcome_unknown);

/** @param {{ task: any, onDone: () => void }} props */
export function TaskActions({ task, onDone }) {
  const [asking, setAsking] = useState("");
  const editWhy =
    refusal("edit", task.queue) || (task.replaced_by ? "An edited copy has replaced it: edit that one." : "");
  const look = (/** @type {string} */ name) =>
    name === "redrive" && stateOf(task) === "parked" ? "primary" : ACTIONS[name].danger ? "red" : "";
  return html`
    ${task.state === "parked" && html`<${Act} href="${to("tasks", task.retry_id)}/edit" why=${editWhy}>Edit and retry<//>`}
    ${Object.keys(ACTIONS)
      .filter(name => offered(name, task))
      .map(
        name =>
          html`<${Act} class=${look(name)} why=${refusal(name, task.queue)} onClick=${() => setAsking(name)}
            >${ACTIONS[name].label}<//
          >`,
      )}
    ${asking && html`<${Ask} name=${asking} task=${task} onClose=${() => setAsking("")} onDone=${onDone} />`}
  `;
}

/** @param {{ name: string, task: any, onClose: () => void, onDone: () => void }} props */
function Ask({ name, task, onClose, onDone }) {
  const { form, field } = useForm({ queue: "", delay: "", at: "", result: "succeeded", error: "", even: false });
  const action = ACTIONS[name];
  const elsewhere = form.queue.trim();
  const label = elsewhere ? "Redrive elsewhere" : action.label;
  /** @type {any} */
  let body = {};
  let disabled = "";
  let fields = null;
  if (name === "fire") fields = html`<${Held} queue=${task.queue} />`;
  else if (name === "redrive") {
    body = {
      ...(elsewhere && { queue: elsewhere }),
      ...(form.even && (task.replaced_by ? { include_replaced: true } : { include_reported: true })),
    };
    const ask = task.replaced_by
      ? "also though an edited copy has replaced it"
      : task.state === "succeeded"
        ? "also if its success was reported"
        : "";
    if (task.replaced_by && !form.even) disabled = "An edited copy has replaced it.";
    fields = html`<${Held} queue=${elsewhere || task.queue} />
      <${Field} label="To another queue" hint="empty: where it came from" ...${field("queue")} />
      ${ask && html`<${Check} ...${field("even")}>${ask}<//>`}`;
  } else if (name === "reschedule") {
    body = form.at ? { at: fromInput(form.at) } : { delay: form.delay.trim() };
    if (!form.at && !form.delay.trim()) disabled = "Say when.";
    fields = html`<div class="grid">
      <${Field} label="In" hint="30m, 2h, 1d" autofocus ...${field("delay")} />
      <${Field} label="or at" hint=${zoneName()} type="datetime-local" ...${field("at")} />
    </div>`;
  } else if (name === "finish") {
    const failed = form.result === "failed";
    const sent = task.state !== "parked" && task.state !== "scheduled";
    body = {
      result: form.result,
      ...(failed && form.error && { error: form.error }),
      ...(failed && task.attempt > 0 && { attempt: task.attempt }),
    };
    fields = html`<${Field}
        label="Result"
        options=${["succeeded", ...(sent ? ["failed"] : [])]}
        ...${field("result")}
      />
      ${failed && html`<${Field} label="Error" ...${field("error")} />`}`;
  }
  return html`<${Confirm}
    title="${label}: task ${task.retry_id}"
    button="${label} 1 task"
    danger=${action.danger}
    text=${action.text}
    fields=${fields}
    disabled=${disabled}
    send=${(/** @type {any} */ given) => act(task, name, { ...body, ...given })}
    said=${(/** @type {any} */ answer) => (answer?.unchanged_because ? `Nothing was changed: ${answer.unchanged_because}` : `It is ${action.past}.`)}
    onDone=${onDone}
    onClose=${onClose}
  />`;
}
