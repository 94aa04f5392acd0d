// A task: what can be done with it, its life, its message, who changed it.
import { useState } from "preact/hooks";
import { get, getAll, refusal } from "../lib/api.js";
import { fromBase64, hex, size, utf8 } from "../lib/bytes.js";
import { duration } from "../lib/format.js";
import { html } from "../lib/html.js";
import { pretty, stringify } from "../lib/json.js";
import { useData, useWatch } from "../lib/live.js";
import { to } from "../lib/router.js";
import { Value } from "../parts/filter.js";
import { Choice } from "../parts/form.js";
import { Copy, Facts, Loading, Page, Problem, Section } from "../parts/page.js";
import { HeldBy } from "../parts/queues.js";
import { silenceOf } from "../parts/rules.js";
import { AuditTable, Changed } from "../parts/tables.js";
import { TaskActions } from "../parts/task_actions.js";
import { Badge, ErrorText, QueueLink, stateOf, Text, Time, toneOf } from "../parts/text.js";

/** @param {string} id @param {{ signal: AbortSignal }} options */
async function readTask(id, options) {
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  const [task, audit, origin] = await Promise.all([
    get(path, options),
    getAll(`${path}/audit`, "audit", options),
    get(`${path}/origin`, options).catch(() => null),
  ]);
  return { task, audit: audit.audit, origin: origin?.origin ?? null };
}

/** @param {{ params: { id: string } }} props */
export function Task({ params }) {
  const loaded = useData(params.id, { read: readTask, on: changes => changes.tasks?.includes(params.id), every: 500 });
  const { data, reload } = loaded;
  useWatch(params.id);
  const up = /** @type {[string, string]} */ (["Tasks", "/console/tasks"]);
  const name = `Task ${params.id}`;
  if (!data) return html`<${Page} title=${name} up=${up} of=${loaded} />`;
  const { task, audit, origin } = data;
  return html`<${Page}
    title=${html`Task <span class="id">${task.retry_id}</span>`}
    name=${name}
    up=${up}
    badge=${html`<${Badge} is=${stateOf(task)} />`}
    actions=${html`<${TaskActions} task=${task} onDone=${reload} />`}
    of=${loaded}
  >
    ${task.replaced_by && html`<p class="warn">An edited copy has replaced it: <a class="id" href=${to("tasks", task.replaced_by)}>${task.replaced_by}</a>.</p>`}
    <${HeldBy} gate=${task.held} />
    ${!task.body_stored && html`<p class="warn">The database could not store its body: the copy in the queue of parked messages has it. Only an edit that gives a body sends it.</p>`}
    ${task.outcome_unknown && html`<p class="warn">The silence after its delivery is held open: <${Text} value=${task.outcome_unknown} />.</p>`}
    <div class="columns">
      <div>
        ${
          task.last_error &&
          html`<${Section} title="Last error" actions=${html`<${Copy} text=${task.last_error} />`}>
            <pre tabindex="0"><${Text} value=${task.last_error} lines /></pre>
          <//>`
        }
        <${Section} title="Its life"><${Life} task=${task} audit=${audit} /><//>
      </div>
      <aside class="card">
        <${Facts}
          rows=${[
            ["Queue", task.queue && html`<${QueueLink} queue=${task.queue} />`],
            ["Exchange", task.by_exchange && html`<${Text} value="${task.exchange} / ${task.routing_key ?? ""}" />`],
            [
              "Cause",
              task.cause_id &&
                html`<a href=${to("causes", task.cause_id)}><${Value} name="cause" value=${task.cause_id} /></a>`,
            ],
            ["Error type", task.error_type],
            ["Due", task.next_due_at && html`<${Time} at=${task.next_due_at} />`],
            [
              "Ladder",
              html`<code>${task.ladder}</code>, level ${task.level} of
                ${task.levels}${task.ladder_pinned ? ", its own" : ""}`,
            ],
            [
              "Attempts",
              `${task.attempt}${task.max_attempts ? ` of at most ${task.max_attempts}` : ""}${task.uncounted_attempts ? `, ${task.uncounted_attempts} not counted` : ""}`,
            ],
            ["Silence", silenceOf(task.silence)],
            ["Message-id", task.message_id],
            ["Correlation id", task.correlation_id],
            ["Tag", task.tag],
            ["Rule", task.rule && html`<code>${task.rule}</code>`],
            ["First failed", task.first_failed_at && html`<${Time} at=${task.first_failed_at} />`],
            ["Received", html`<${Time} at=${task.created_at} />`],
            ["Ended", task.finished_at && html`<${Time} at=${task.finished_at} />`],
            ["Ended by", task.finished_by],
            ["Error queue", task.error_queue],
            [
              "Continues",
              task.parent_id && html`<a class="id" href=${to("tasks", task.parent_id)}>${task.parent_id}</a>`,
            ],
            ["Body", size(task.body_bytes)],
            ["Shard, node", html`${task.shard}, <${Text} value=${task.node} />`],
            ["Version", String(task.version)],
          ]}
        />
      </aside>
    </div>
    <${Section} title="Message"
      ><${MessageView} id=${task.retry_id} why=${refusal("body", task.queue)} origin=${origin}
    /><//>
    <${Section} title="Changes by hand">
      ${audit.length ? html`<${AuditTable} rows=${audit} without=${["Task"]} />` : html`<p class="faint">None.</p>`}
    <//>
  <//>`;
}

// The life of a task as a line that branches: where it came from, each attempt, what people did, what became of it.

/** @param {{ task: any, audit: any[] }} props */
function Life({ task, audit }) {
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
  const delay = task.kind === "delay";
  return html`<ol class="life">
    ${task.parent_id && html`<${Event} class="branch">Continues <${TaskLink} id=${task.parent_id} /><//>`}
    <${Event}
      tone=${delay ? "gray" : "red"}
      at=${task.created_at}
      more=${task.error_queue && html`<p class="faint">from the error queue <${Text} value=${task.error_queue} /></p>`}
    >
      <b>${delay ? "Submitted" : "Failed, and came here"}</b>
    <//>
    ${events.map(event => event.view)}
    <${Now} task=${task} />
    ${task.replaced_by && html`<${Event} class="branch out">Replaced by <${TaskLink} id=${task.replaced_by} />, an edited copy<//>`}
    ${others.map(child => html`<${Event} class="branch out">Continued by <${TaskLink} id=${child} /><//>`)}
  </ol>`;
}

/** @param {{ tone?: string, class?: string, at?: string | null, more?: any, children?: any }} props */
const Event = ({ tone = "blue", class: look, at, more, children }) =>
  html`<li class=${look}>
    <i class="dot ${tone}"></i>
    <p>${children} ${at && html`<small><${Time} at=${at} full ms /></small>`}</p>
    ${more}
  </li>`;

/** @param {{ id: string }} props */
const TaskLink = ({ id }) => html`<a class="id" href=${to("tasks", id)}>${id}</a>`;

/** @param {{ attempt: any }} props */
function Attempt({ attempt }) {
  const sent = attempt.published_at ?? attempt.due_at;
  const late = attempt.late_ms ?? null;
  const more = html`<p class="faint">
      due
      <${Time}
        at=${attempt.due_at}
        full
        ms
      />${attempt.published_at ? "" : ", not published yet"}${late !== null && html`, <span class=${late > 1000 ? "amber" : ""}>${late > 0 ? `late by ${duration(late)}` : "on time"}</span>`}${
        attempt.outcome_at && `, answered after ${duration(Date.parse(attempt.outcome_at) - Date.parse(sent))}`
      }${
        attempt.executor && html`, handled by <${Text} value=${attempt.executor} />`
      }${attempt.node && html`, sent by <${Text} value=${attempt.node} />`}${attempt.rule && html`, rule <code>${attempt.rule}</code>`}
    </p>
    ${attempt.error && html`<div><${ErrorText} value=${attempt.error} /></div>`}`;
  return html`<${Event} tone=${toneOf(attempt.outcome)} at=${sent} more=${more}>
    <b>Attempt ${attempt.attempt}</b> <span class="faint">level ${attempt.level}</span>
    <${Badge} is=${attempt.outcome} />
  <//>`;
}

/** @param {{ change: any }} props */
function ByHand({ change }) {
  const more = html`${change.reason && html`<p>“<${Text} value=${change.reason} />”</p>`}
    <p class="faint">
      <${Changed}
        change=${change}
      />${change.bulk_id && html` in <a href=${to("bulks", change.bulk_id)}>bulk ${change.bulk_id}</a>`}
    </p>`;
  return html`<${Event} class="hand" at=${change.at} more=${more}>
    <b><${Text} value=${change.what} /></b> by <${Text} value=${change.who} />
  <//>`;
}

/** @param {{ task: any }} props */
function Now({ task }) {
  const state = stateOf(task);
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
  const held =
    task.held &&
    html`<p class="faint">Held by <${Badge} is=${task.held.state} /> <${Text} value=${task.held.reason ?? ""} /></p>`;
  return html`<${Event} class="now" tone=${toneOf(state)} at=${task.finished_at} more=${held}>
    <${Badge} is=${state} /> ${words[state]}
  <//>`;
}

// A message: its body as text, JSON or bytes, its headers and properties. Whatever is in it is shown as text.

/** Most that is shown of a body: a browser does not like megabytes in one element. */
const MOST = 200000;

/** @param {any} table @returns {[string, any][]} */
const rowsOf = table =>
  Object.entries(table ?? {}).map(([name, value]) => [
    /** @type {any} */ (html`<${Text} value=${name} />`),
    html`<${Text} value=${value !== null && typeof value === "object" ? stringify(value) : String(value)} lines />`,
  ]);

/** @param {{ id: string, why: string, origin: any }} props */
function MessageView({ id, why, origin }) {
  const { data, error, reload } = useData(why ? null : `/v1/tasks/${id}/message`);
  const [tab, setTab] = useState("");
  const bytes = data ? fromBase64(data.body_base64) : null;
  const text = bytes && utf8(bytes);
  const asJson = typeof text === "string" ? pretty(text) : null;
  const tabs = [
    ...(asJson !== null && text?.trim() ? [["json", "JSON"]] : []),
    ...(text !== null ? [["text", "Text"]] : []),
    ["hex", "Hex"],
    ["headers", `Headers ${Object.keys(data?.headers ?? {}).length}`],
    ["properties", "Properties"],
    ["origin", "Arrived with"],
  ];
  const shown = tab || tabs[0][0];
  if (why) {
    return html`<p class="faint">The message is not shown: ${why}</p>
      ${
        origin &&
        html`<h3>Arrived with</h3>
          <${Facts} rows=${rowsOf(origin)} />`
      }`;
  }
  if (!data || !bytes) return error ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const body = shown === "json" ? asJson : shown === "text" ? text : shown === "hex" ? hex(bytes) : null;
  return html`<div class="message">
    <${Choice} label="Parts of the message" options=${tabs} value=${shown} choose=${setTab}>
      ${body !== null && body !== "" && html`<${Copy} text=${body} />`}
      <a class="button small quiet" href="/v1/tasks/${id}/body" download="task-${id}.body">Download</a>
    <//>
    ${
      body !== null
        ? bytes.length
          ? html`<pre class="body" tabindex="0"><${Text} value=${body} lines most=${MOST} /></pre>
              <p>
                <small>
                  ${size(bytes.length)}${body.length > MOST || (shown === "hex" && bytes.length > 16384) ? ", cut here: download it to see all" : ""}</small
                >
              </p>`
          : html`<p class="faint">The body is empty.</p>`
        : shown === "headers"
          ? Object.keys(data.headers ?? {}).length
            ? html`<${Facts} rows=${rowsOf(data.headers)} />`
            : html`<p class="faint">It has no headers of its own.</p>`
          : html`<${Facts} rows=${rowsOf(shown === "properties" ? data.properties : origin)} />`
    }
  </div>`;
}
