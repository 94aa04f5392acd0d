// A task: what can be done with it, its life, its message, who changed it.
import { html } from "../lib/html.js";
import { get, getAll } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useChanges, useWatch } from "../lib/live.js";
import { to } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { size } from "../lib/bytes.js";
import { duration } from "../lib/time.js";
import { AuditTable } from "../parts/audit_table.js";
import { Badge, stateOf } from "../parts/badge.js";
import { Copy } from "../parts/copy.js";
import { HeldBy } from "../parts/held.js";
import { Value } from "../parts/filter_chips.js";
import { Life } from "../parts/life.js";
import { MessageView } from "../parts/message.js";
import { Facts, Page, Section } from "../parts/page.js";
import { TaskActions } from "../parts/task_actions.js";
import { QueueLink, Text } from "../parts/text.js";
import { Time } from "../parts/time.js";

/** @param {string} id @param {{ signal: AbortSignal }} options */
async function readTask(id, options) {
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  const [task, audit, origin] = await Promise.all([
    get(path, options),
    getAll(`${path}/audit`, "changes", options),
    get(`${path}/origin`, options).catch(() => null),
  ]);
  return { task, audit: audit.changes, origin: origin?.origin ?? null };
}

/** @param {any} success */
function silence(success) {
  if (!success) return null;
  const [name, after] = Object.entries(success)[0];
  const text = typeof after === "number" ? duration(after) : String(after);
  return name === "presumed_after" ? `counts as success after ${text}` : `counts as failure after ${text}`;
}

/** @param {{ params: { id: string } }} props */
export function Task({ params }) {
  const loaded = useData(params.id, readTask);
  const { data, reload } = loaded;
  useWatch(params.id);
  useChanges(changes => changes.more || changes.tasks?.includes(params.id), reload, 500);
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
    ${task.silence_held && html`<p class="warn">The silence after its delivery is held open: <${Text} value=${task.silence_held} />.</p>`}
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
            ["Error type", task.error_type && html`<${Text} value=${task.error_type} />`],
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
            ["Silence", silence(task.silence)],
            ["Message-id", task.message_id && html`<${Text} value=${task.message_id} />`],
            ["Correlation id", task.correlation_id && html`<${Text} value=${task.correlation_id} />`],
            ["Tag", task.tag && html`<${Text} value=${task.tag} />`],
            ["Rule", task.rule && html`<code>${task.rule}</code>`],
            ["First failed", task.first_failed_at && html`<${Time} at=${task.first_failed_at} />`],
            ["Received", html`<${Time} at=${task.created_at} />`],
            ["Ended", task.finished_at && html`<${Time} at=${task.finished_at} />`],
            ["Ended by", task.finished_by && html`<${Text} value=${task.finished_by} />`],
            ["Error queue", task.error_queue && html`<${Text} value=${task.error_queue} />`],
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
      ><${MessageView} id=${task.retry_id} version=${task.version} why=${refusal("body", task.queue)} origin=${origin}
    /><//>
    <${Section} title="Changes by hand">
      ${audit.length ? html`<${AuditTable} rows=${audit} withTask=${false} />` : html`<p class="faint">None.</p>`}
    <//>
  <//>`;
}
