// One queue: its gate, its ladder with those who wait on each rung, what fails in it, what would happen to a failure.
import { useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { get, post, withQuery } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useChanges } from "../lib/live.js";
import { refusal } from "../lib/session.js";
import { count, percent } from "../lib/format.js";
import { together } from "../lib/queues.js";
import { Act } from "../parts/act.js";
import { Badge } from "../parts/badge.js";
import { CauseTable } from "../parts/cause_table.js";
import { Confirm } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { LadderPicture } from "../parts/ladder.js";
import { Facts, Page, Section } from "../parts/page.js";
import { useLastHour } from "../parts/queue_tile.js";
import { Rules } from "../parts/rules.js";
import { Simulate } from "../parts/simulate.js";
import { ErrorText, Text } from "../parts/text.js";
import { Time } from "../parts/time.js";
import { say } from "../parts/toast.js";
import { Totals } from "../parts/totals.js";
import { History } from "./overview.js";

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
  const loaded = useData(name, readQueue);
  const { data, reload } = loaded;
  const hour = useLastHour(name);
  const [asking, setAsking] = useState("");
  useChanges(() => true, reload, 2000);
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
    ${known.state !== "flowing" && html`<${Gate} gate=${gate} />`}
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
    ${asking && html`<${Ask} what=${asking} name=${name} waiting=${known.waiting} onClose=${() => setAsking("")} onDone=${() => (setAsking(""), reload())} />`}
  <//>`;
}

/** @param {{ gate: any }} props */
function Gate({ gate }) {
  return html`<div class="card">
    <${Facts}
      rows=${[
        ["Held since", gate.since && html`<${Time} at=${gate.since} />`],
        ["Until", gate.until ? html`<${Time} at=${gate.until} />` : "it is resumed, or not known"],
        ["Reason", gate.reason && html`<${ErrorText} value=${gate.reason} />`],
        ["By", gate.by && html`<${Text} value=${gate.by} />`],
      ]}
    />
  </div>`;
}

const ASK = /** @type {Record<string, [string, string]>} */ ({
  pause: ["Pause", "What is due waits until the queue is resumed. What is under way goes on."],
  resume: ["Resume", "What is overdue is sent now, the oldest first."],
  probe: ["Probe", "The task that is due first is sent within a second. If it succeeds, the others follow."],
});

/** @param {{ what: string, name: string, waiting: number, onClose: () => void, onDone: () => void }} props */
function Ask({ what, name, waiting, onClose, onDone }) {
  const [length, setLength] = useState("");
  const [word, text] = ASK[what];
  const pause = what === "pause";
  const path = `/v1/queues/${encodeURIComponent(name)}/${pause ? "pause" : "resume"}`;
  return html`<${Confirm}
    title="${word} ${name}"
    button="${word}: ${count(waiting)} ${waiting === 1 ? "task waits" : "tasks wait"}"
    text=${text}
    fields=${pause && html`<${Field} label="For" hint="30m, 2h, 1d; empty: until it is resumed" value=${length} onInput=${setLength} autofocus />`}
    send=${(/** @type {string} */ reason) => post(path, { ...(pause && length.trim() && { for: length.trim() }), ...(what === "probe" && { probe: true }), ...(reason && { reason }) })}
    onDone=${(/** @type {any} */ answer) => {
      say(
        pause
          ? `${name} is paused.`
          : what === "probe"
            ? `${name} is probed.`
            : answer?.held_still
              ? `Resumed; it is still held: ${answer.held_still}`
              : `${name} is resumed.`,
      );
      onDone();
    }}
    onClose=${onClose}
  />`;
}
