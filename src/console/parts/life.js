// The life of a task as a line that branches: where it came from, each attempt, what people did, what became of it.
import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { duration } from "../lib/time.js";
import { Changed } from "./audit_table.js";
import { Badge, stateOf, toneOf } from "./badge.js";
import { ErrorText, Text } from "./text.js";
import { Time } from "./time.js";

/** @param {{ task: any, audit: any[] }} props */
export function Life({ task, audit }) {
  /** @type {{ at: string, view: any }[]} */
  const events = [
    ...task.history.map((/** @type {any} */ attempt) => ({
      at: attempt.published_at ?? attempt.due_at,
      view: html`<${Attempt} key=${"a" + attempt.attempt} attempt=${attempt} />`,
    })),
    ...audit.map(change => ({
      at: change.at,
      view: html`<${ByHand} key=${"h" + change.audit_id} change=${change} />`,
    })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const others = /** @type {string[]} */ (task.children).filter(child => child !== task.replaced_by);
  return html`<ol class="life">
    ${
      task.parent_id &&
      html`<li class="branch">
        <${Dot} tone="blue" />
        <p>Continues <${TaskLink} id=${task.parent_id} /></p>
      </li>`
    }
    <li>
      <${Dot} tone=${task.kind === "delay" ? "gray" : "red"} />
      <p>
        <b>${task.kind === "delay" ? "Submitted" : "Failed, and came here"}</b>
        <small><${Time} at=${task.created_at} full ms /></small>
      </p>
      ${task.error_queue && html`<p class="faint">from the error queue <${Text} value=${task.error_queue} /></p>`}
    </li>
    ${events.map(event => event.view)}
    <${Now} task=${task} />
    ${
      task.replaced_by &&
      html`<li class="branch out">
        <${Dot} tone="blue" />
        <p>Replaced by <${TaskLink} id=${task.replaced_by} />, an edited copy</p>
      </li>`
    }
    ${others.map(
      child =>
        html`<li class="branch out">
          <${Dot} tone="blue" />
          <p>Continued by <${TaskLink} id=${child} /></p>
        </li>`,
    )}
  </ol>`;
}

/** @param {{ tone: string }} props */
const Dot = ({ tone }) => html`<i class="dot ${tone}"></i>`;

/** @param {{ id: string }} props */
const TaskLink = ({ id }) => html`<a class="id" href=${to("tasks", id)}>${id}</a>`;

/** @param {{ attempt: any }} props */
function Attempt({ attempt }) {
  return html`<li>
    <${Dot} tone=${toneOf(attempt.outcome)} />
    <p>
      <b>Attempt ${attempt.attempt}</b> <span class="faint">level ${attempt.level}</span>
      <${Badge} is=${attempt.outcome} />
      <small><${Time} at=${attempt.published_at ?? attempt.due_at} full ms /></small>
    </p>
    <p class="faint">
      due <${Time} at=${attempt.due_at} full ms />${attempt.published_at ? "" : ", not published yet"}${
        attempt.late_ms !== null && attempt.late_ms !== undefined
          ? html`,
              <span class=${attempt.late_ms > 1000 ? "amber" : ""}
                >${attempt.late_ms > 0 ? `late by ${duration(attempt.late_ms)}` : "on time"}</span
              >`
          : null
      }${attempt.outcome_at && html`, answered after ${duration(Date.parse(attempt.outcome_at) - Date.parse(attempt.published_at ?? attempt.due_at))}`}${
        attempt.executor && html`, handled by <${Text} value=${attempt.executor} />`
      }${attempt.node && html`, sent by <${Text} value=${attempt.node} />`}${attempt.rule && html`, rule <code>${attempt.rule}</code>`}
    </p>
    ${attempt.error && html`<div><${ErrorText} value=${attempt.error} /></div>`}
  </li>`;
}

/** @param {{ change: any }} props */
function ByHand({ change }) {
  return html`<li class="hand">
    <${Dot} tone="blue" />
    <p>
      <b><${Text} value=${change.what} /></b> by <${Text} value=${change.who} />
      <small><${Time} at=${change.at} full ms /></small>
    </p>
    ${change.reason && html`<p>“<${Text} value=${change.reason} />”</p>`}
    <p class="faint">
      <${Changed}
        change=${change}
      />${change.bulk_id && html` in <a href=${to("bulks", change.bulk_id)}>bulk ${change.bulk_id}</a>`}
    </p>
  </li>`;
}

/** @param {{ task: any }} props */
function Now({ task }) {
  const ended = task.finished_at;
  const words = /** @type {Record<string, any>} */ ({
    scheduled: html`Next attempt <${Time} at=${task.next_due_at} />
      <span class="faint">(level ${task.level} of ${task.levels})</span>`,
    publishing: "It is being published.",
    awaiting: "It is with the consumer; its answer is awaited.",
    parked: "It waits for a person: redrive it, edit it, or discard it.",
    replaced: "It waits for nobody: its edited copy goes on.",
    succeeded: "It is done.",
    cancelled: "It will not be sent.",
    discarded: "It was given up.",
  });
  return html`<li class="now">
    <${Dot} tone=${toneOf(stateOf(task))} />
    <p>
      <${Badge} is=${stateOf(task)} /> ${words[stateOf(task)]}
      ${ended && html`<small><${Time} at=${ended} full ms /></small>`}
    </p>
    ${task.held && html`<p class="faint">Held by <${Badge} is=${task.held.state} /> <${Text} value=${task.held.reason ?? ""} /></p>`}
  </li>`;
}
