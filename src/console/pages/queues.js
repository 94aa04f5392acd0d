import { useState } from "preact/hooks";
import { get, getAll, post, refusal, withQuery } from "../lib/api.js";
import { atPlace, together } from "../lib/figures.js";
import { count, percent } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData } from "../lib/live.js";
import { to } from "../lib/router.js";
import { History } from "../parts/chart.js";
import { Act, Confirm, Field, useForm } from "../parts/form.js";
import { Empty, Facts, Page, Section, Table } from "../parts/page.js";
import { LadderPicture } from "../parts/pictures.js";
import { Totals, useLastHour } from "../parts/queues.js";
import { Rules, Simulate } from "../parts/rules.js";
import { CauseTable } from "../parts/tables.js";
import { Badge, ErrorText, firstLine, Text, Time } from "../parts/text.js";

/** @param {string} _ @param {{ signal: AbortSignal }} options */
async function readQueues(_, options) {
  const [stats, queues] = await Promise.all([get("/v1/stats", options), getAll("/v1/queues", "queues", options)]);
  return { stats, queues: together(stats, queues.queues).sort(atPlace) };
}

/** @type {import("../parts/page.js").Column[]} */
const COLUMNS = [
  {
    label: "Queue",
    cell: queue => html`<a data-row href=${to("queues", queue.queue)}><${Text} value=${queue.queue} /></a>`,
  },
  { label: "State", cell: queue => html`<${Badge} is=${queue.state} />` },
  {
    label: "Parked",
    num: true,
    cell: queue => html`<b class=${queue.tasks.parked ? "red" : ""}>${count(queue.tasks.parked ?? 0)}</b>`,
  },
  { label: "Waiting", num: true, cell: queue => count(queue.waiting) },
  { label: "Awaiting", num: true, cell: queue => count(queue.tasks.awaiting ?? 0) },
  { label: "Succeeded", num: true, cell: queue => count(queue.tasks.succeeded ?? 0) },
  { label: "Overdue", num: true, cell: queue => count(queue.overdue) },
  {
    label: "On time",
    num: true,
    cell: queue => (queue.share === null ? html`<span class="faint">–</span>` : percent(queue.share)),
  },
  { label: "Next due", cell: queue => html`<${Time} at=${queue.next_due_at} />` },
  {
    label: "Why it is held",
    wide: true,
    cell: queue => html`<${Text} value=${[firstLine("", queue.reason).first, queue.by].filter(Boolean).join(", ")} />`,
  },
];

export function Queues() {
  const loaded = useData("queues", { read: readQueues, on: () => true, every: 2000 });
  const { data, stale } = loaded;
  return html`<${Page} title="Queues" of=${loaded}>
    ${
      data &&
      (data.queues.length
        ? html`<${Totals} totals=${data.stats.totals} overdue=${data.stats.overdue} />
            <${Table} label="Queues" columns=${COLUMNS} rows=${data.queues} id="queue" busy=${stale} />`
        : html`<${Empty} title="No queue has a task." command="rung attach QUEUE">
            <p>
              Attach a queue, and what its consumers reject is sent again, by its ladder. To see whether it is attached:
              <code>rung attached</code>
            </p>
          <//>`)
    }
  <//>`;
}

// One queue: its gate, its ladder with those who wait on each rung, what fails in it, what would happen to a failure.

/** @param {string} name @param {{ signal: AbortSignal }} options */
async function readQueue(name, options) {
  const [stats, gate, causes, levels] = await Promise.all([
    get("/v1/stats", options),
    get(`/v1/queues/${encodeURIComponent(name)}`, options),
    get(withQuery("/v1/causes", { queue: name, with_tasks: true, limit: 10 }), options),
    get(withQuery("/v1/tasks", { queue: name, state: "scheduled", count: true, by: "level" }), options),
  ]);
  const known = /** @type {any} */ (together(stats, [gate]).find(queue => queue.queue === name));
  return { known, gate, causes, levels };
}

/** @param {{ params: { name: string }, query: URLSearchParams }} props */
export function Queue({ params, query }) {
  const name = params.name;
  const loaded = useData(name, { read: readQueue, on: () => true, every: 2000 });
  const { data, reload } = loaded;
  const hour = useLastHour(name);
  const [asking, setAsking] = useState("");
  const up = /** @type {[string, string]} */ (["Queues", "/console/queues"]);
  if (!data) return html`<${Page} title=${name} up=${up} of=${loaded} />`;
  const { known, gate, causes, levels } = data;
  const paused = known.state === "paused";
  const waiting = Object.fromEntries(levels.groups.map((/** @type {any} */ g) => [g.value, g.count]));
  return html`<${Page}
    title=${html`<${Text} value=${name} />`}
    name=${name}
    up=${up}
    badge=${html`<${Badge} is=${known.state} /> <span class="badge ${gate.attached ? "green" : "amber"}">${gate.attached ? "attached" : "not attached"}</span>`}
    actions=${
      paused
        ? html`<${Act} class="primary" why=${refusal("resume", name)} onClick=${() => setAsking("resume")}>Resume…<//>
            <${Act} why=${refusal("pause", name)} onClick=${() => setAsking("pause")}>Change the pause…<//>`
        : html`<${Act} why=${refusal("pause", name)} onClick=${() => setAsking("pause")}>Pause…<//>
            ${gate.state === "breaker_open" && html`<${Act} why=${refusal("resume", name)} onClick=${() => setAsking("probe")}>Probe now…<//>`}
            ${gate.by === "retry-after" && html`<${Act} why=${refusal("resume", name)} onClick=${() => setAsking("resume")}>Resume…<//>`}`
    }
    of=${loaded}
  >
    ${
      known.state !== "flowing" &&
      html`<div class="card">
        <${Facts}
          rows=${[
            ["Held since", gate.since && html`<${Time} at=${gate.since} />`],
            ["Until", gate.until ? html`<${Time} at=${gate.until} />` : "it is resumed, or not known"],
            ["Reason", gate.reason && html`<${ErrorText} value=${gate.reason} />`],
            ["By", gate.by],
          ]}
        />
      </div>`
    }
    <${Totals}
      queue=${name}
      totals=${known.tasks}
      overdue=${known.overdue}
      more=${[[percent(hour.rate), "succeed, last hour"], ...(known.share === null ? [] : [[percent(known.share), "on time, last hour"]])]}
    />
    <div class="columns even">
      <${Section} title="Ladder">
        <${LadderPicture} ladder=${gate.config} waiting=${waiting} parked=${known.tasks.parked ?? 0} />
      <//>
      <div>
        <${Section} title="Rules"><${Rules} config=${gate.config} /><//>
        <${Section} title="What if"><${Simulate} queue=${name} /><//>
      </div>
    </div>
    <${Section}
      title="Causes"
      actions=${causes.next && html`<a class="button small" href=${withQuery("/console/causes", { queue: name })}>All causes</a>`}
    >
      ${causes.causes.length ? html`<${CauseTable} causes=${causes.causes} brief />` : html`<p class="green"><span aria-hidden="true">✓</span> Nothing of this queue fails.</p>`}
    <//>
    <${History} query=${query} queue=${name} />
    ${asking && html`<${Ask} what=${asking} name=${name} waiting=${known.waiting} onClose=${() => setAsking("")} onDone=${reload} />`}
  <//>`;
}

const ASK = /** @type {Record<string, [string, string]>} */ ({
  pause: ["Pause", "What is due waits until the queue is resumed. What is under way goes on."],
  resume: ["Resume", "What is overdue is sent now, the oldest first."],
  probe: ["Probe", "The task that is due first is sent within a second. If it succeeds, the others follow."],
});

/** @param {{ what: string, name: string, waiting: number, onClose: () => void, onDone: () => void }} props */
function Ask({ what, name, waiting, onClose, onDone }) {
  const { form, field } = useForm({ for: "" });
  const [word, text] = ASK[what];
  const pause = what === "pause";
  const path = `/v1/queues/${encodeURIComponent(name)}/${pause ? "pause" : "resume"}`;
  return html`<${Confirm}
    title="${word} ${name}"
    button="${word}: ${count(waiting)} ${waiting === 1 ? "task waits" : "tasks wait"}"
    text=${text}
    fields=${pause && html`<${Field} label="For" hint="30m, 2h, 1d; empty: until it is resumed" autofocus ...${field("for")} />`}
    send=${(/** @type {any} */ given) => post(path, { ...given, ...(form.for.trim() && { for: form.for.trim() }), ...(what === "probe" && { probe: true }) })}
    said=${(/** @type {any} */ answer) => (answer?.held_by ? `Resumed; it is still held: ${answer.held_by}` : `${name} is ${word.toLowerCase()}d.`)}
    onDone=${onDone}
    onClose=${onClose}
  />`;
}
