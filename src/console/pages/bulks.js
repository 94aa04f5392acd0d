import { useState } from "preact/hooks";
import { post, refusal, withQuery } from "../lib/api.js";
import { count, duration, percent, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData, useEvery, useSend } from "../lib/live.js";
import { to } from "../lib/router.js";
import { BULK_ACTIONS, FilterChips, Value } from "../parts/filter.js";
import { Act, Check, Confirm, Field, useForm } from "../parts/form.js";
import { Empty, Facts, Page, Pager, Problem, Section, Table } from "../parts/page.js";
import { Bar } from "../parts/pictures.js";
import { HeldBy } from "../parts/queues.js";
import { Badge, ErrorText, Text, Time } from "../parts/text.js";

/** @type {import("../parts/page.js").Column[]} */
const COLUMNS = [
  {
    label: "Bulk",
    cell: bulk =>
      html`<a data-row href=${to("bulks", bulk.id)}>${bulk.id}: ${BULK_ACTIONS[bulk.action]?.label ?? bulk.action}</a>`,
  },
  {
    label: "State",
    cell: bulk =>
      html`<${Badge} is=${bulk.state} label=${bulk.state === "paused" && bulk.done === 0 ? "frozen" : undefined} />`,
  },
  { label: "Tasks", num: true, cell: bulk => count(bulk.total) },
  {
    label: "Done",
    num: true,
    cell: bulk =>
      html`${count(bulk.done)} <span class="faint">${percent(bulk.total ? bulk.done / bulk.total : 1)}</span>`,
  },
  {
    label: "Filter",
    wide: true,
    cell: bulk =>
      html`${Object.entries(bulk.filter).map(([name, value], i) => html`${i ? ", " : ""}<span class="faint">${name.replaceAll("_", " ")}</span> <${Value} name=${name} value=${value} />`)}`,
  },
  { label: "By", cell: bulk => html`<span class="clip"><${Text} value=${bulk.who} /></span>` },
  { label: "Created", cell: bulk => html`<${Time} at=${bulk.created_at} />` },
];

/** @param {{ query: URLSearchParams }} props */
export function Bulks({ query }) {
  const path = withQuery("/v1/bulks", { limit: 50, cursor: query.get("cursor") });
  const loaded = useData(path, { on: changes => changes.bulks?.length });
  const { data, stale } = loaded;
  return html`<${Page} title="Bulks" of=${loaded}>
    <p class="lead">One action on many tasks. They run in the sidecars, also when nobody looks.</p>
    ${
      data &&
      (data.bulks.length
        ? html`<${Table} label="Bulks" columns=${COLUMNS} rows=${data.bulks} id="id" busy=${stale} />
            <${Pager} query=${query} next=${data.next} shown=${data.bulks.length} what="bulk" />`
        : html`<${Empty} title="No bulk yet.">
            <p>
              Choose a <a href="/console/causes">cause</a> and redrive its parked tasks, or filter
              <a href="/console/tasks">tasks</a> and act on all that match.
            </p>
          <//>`)
    }
  <//>`;
}

// A bulk: frozen first, then its stages, its progress and what has become of the tasks.

const UP = /** @type {[string, string]} */ (["Bulks", "/console/bulks"]);

/** @param {any} bulk */
const open = bulk => bulk.state === "running" || bulk.state === "paused";

/** @param {{ params: { id: string } }} props */
export function Bulk({ params }) {
  const path = `/v1/bulks/${encodeURIComponent(params.id)}`;
  const loaded = useData(path, { on: changes => changes.bulks?.includes(params.id), every: 500 });
  const { data: bulk, reload } = loaded;
  const [asking, setAsking] = useState("");
  const { error, send } = useSend();
  // Outcomes come in after the last task was sent: an event of the bulk need not say so.
  const watched = bulk && (open(bulk) || (bulk.outcomes?.open ?? 0) + (bulk.outcomes?.not_yet_sent ?? 0) > 0);
  useEvery(watched ? 2000 : null, reload);
  if (!bulk) return html`<${Page} title="Bulk" up=${UP} of=${loaded} />`;

  const action = BULK_ACTIONS[bulk.action];
  const frozen = bulk.state === "paused" && bulk.done === 0;
  const why = refusal("bulk", bulk.filter.queue ?? null);
  /** @param {string} what @param {any} [body] */
  const change = (what, body = {}) => send(async () => (await post(`${path}/${what}`, body), reload()));
  return html`<${Page}
    title="${action.label} ${plural(bulk.total, "task")}"
    name="Bulk ${bulk.id}"
    up=${UP}
    badge=${html`<${Badge} is=${bulk.state} label=${frozen ? "frozen" : undefined} />`}
    actions=${
      !open(bulk) && bulk.done < bulk.total
        ? html`<${Act}
            class="primary"
            href=${withQuery("/console/act", { action: bulk.action, ...bulk.filter })}
            why=${why}
            >${action.label} the rest…<//
          >`
        : open(bulk) &&
          !frozen &&
          html`
            ${bulk.state === "running" ? html`<${Act} why=${why} onClick=${() => change("pause")}>Pause<//>` : html`<${Act} class="primary" why=${why} onClick=${() => setAsking("resume")}>Resume…<//>`}
            <${Act} class="red" why=${why} onClick=${() => setAsking("abort")}>Abort…<//>
          `
    }
    of=${loaded}
  >
    <${FilterChips} filter=${bulk.filter} />
    <${Problem} error=${error} />
    ${(bulk.outcomes?.held ?? []).map((/** @type {any} */ gate) => html`<${HeldBy} gate=${gate} />`)}
    ${
      bulk.stopped_because &&
      html`<div class="problem" role="alert">
        <p><strong>It stopped by itself.</strong></p>
        <${ErrorText} value=${bulk.stopped_because} />
        <p>
          What was not sent is still parked. Look at the
          <a href="/console/tasks?${new URLSearchParams(bulk.filter)}">tasks</a>, mend the cause, and redrive again.
        </p>
      </div>`
    }
    ${
      frozen &&
      html`<div class="card frozen stack">
        <p class="figure">
          <b>${count(bulk.total)}</b> ${bulk.total === 1 ? "task is" : "tasks are"} chosen.
          <span>Nothing has moved.</span>
        </p>
        <div class="row">
          <${Act}
            class="primary"
            why=${why || (bulk.total ? "" : "There is no task in it.")}
            onClick=${() => change("resume")}
          >
            ${bulk.canary > 0 ? `Start with a canary of ${count(Math.min(bulk.canary, bulk.total))}` : `${action.label} ${plural(bulk.total, "task")}`}
          <//>
          <${Act} why=${why} onClick=${() => change("abort")}>Do not send<//>
        </div>
        ${bulk.action === "redrive" && html`<p class="faint">Until it has ended, its tasks are in no other redrive.</p>`}
      </div>`
    }
    ${!frozen && html`<${Progress} bulk=${bulk} past=${action.past} />`}
    <${Section} title="Settings">
      <${Facts}
        rows=${[
          [
            "Canary",
            bulk.canary
              ? plural(bulk.canary, "task") + (bulk.watch_ms ? `, watched for ${duration(bulk.watch_ms)}` : "")
              : null,
          ],
          ["Rate", bulk.rate ? `${bulk.rate} a second${bulk.ramp ? ", ramped up" : ""}` : "as fast as possible"],
          ["Stops above", bulk.stop_on_failures && `${bulk.stop_on_failures} of failures`],
          ["Target", bulk.elsewhere && Object.values(bulk.elsewhere).join(" / ")],
          ["Reason", bulk.reason],
          ["By", bulk.who],
          [
            bulk.state === "aborted" ? "Aborted by" : "Last changed by",
            bulk.changed_by &&
              html`<${Text}
                  value=${bulk.changed_by}
                />${bulk.changed_because && html`: <${Text} value=${bulk.changed_because} />`}
                <span class="faint"> <${Time} at=${bulk.changed_at} /></span>`,
          ],
          ["Created", html`<${Time} at=${bulk.created_at} />`],
          ["Ended", bulk.finished_at && html`<${Time} at=${bulk.finished_at} />`],
          ["Run by", bulk.runner],
          ["Number", bulk.id],
        ]}
      />
    <//>
    ${asking && html`<${Ask} what=${asking} bulk=${bulk} path=${path} onClose=${() => setAsking("")} onDone=${reload} />`}
  <//>`;
}

const STAGES = /** @type {[string, string][]} */ ([
  ["canary", "Canary is sent"],
  ["watching", "Its outcomes are awaited"],
  ["all", "The others follow"],
]);

/** @param {{ bulk: any, past: string }} props */
function Progress({ bulk, past }) {
  const out = bulk.outcomes;
  const at = bulk.state === "done" ? STAGES.length : STAGES.findIndex(([stage]) => stage === bulk.stage);
  const rest = bulk.total - bulk.done;
  return html`<${Section} title="Progress">
      ${
        bulk.canary > 0 &&
        html`<ol class="stages">
          ${STAGES.map(([, label], i) => html`<li class=${i < at ? "past" : i === at && open(bulk) ? "now" : ""} aria-current=${i === at && open(bulk) ? "step" : undefined}>${label}</li>`)}
        </ol>`
      }
      <${Bar}
        label="Tasks"
        total=${bulk.total}
        parts=${[
          { label: past, n: bulk.applied, tone: "green" },
          { label: "left out", n: bulk.refused, tone: "amber" },
        ]}
      />
      <p>
        ${count(bulk.done)} of ${count(bulk.total)},
        ${percent(bulk.total ? bulk.done / bulk.total : 1)}${bulk.state === "running" && bulk.rate > 0 && rest > 0 && bulk.stage !== "canary" && bulk.stage !== "watching" ? `; about ${duration((rest / bulk.rate) * 1000)} left` : ""}.
        ${bulk.refused > 0 && html` <span class="faint">Left out: their state no longer allowed it, for example because somebody else had acted on them.</span>`}
      </p>
    <//>
    ${
      out &&
      html`<${Section} title="What has become of them">
        <${Bar}
          label="Outcomes"
          total=${Math.max(out.sent, out.succeeded + out.failed + out.open)}
          parts=${[
            { label: "succeeded", n: out.succeeded, tone: "green" },
            { label: "failed again", n: out.failed, tone: "red" },
            { label: "no answer yet", n: out.open, tone: "violet" },
          ]}
        />
        ${out.not_yet_sent > 0 && html`<p class="faint">${plural(out.not_yet_sent, "task is", "tasks are")} not sent yet.</p>`}
      <//>`
    }`;
}

/** @param {{ what: string, bulk: any, path: string, onClose: () => void, onDone: () => void }} props */
function Ask({ what, bulk, path, onClose, onDone }) {
  const { form, field } = useForm({ rate: bulk.rate ? String(bulk.rate) : "", back: true });
  const left = count(bulk.total - bulk.done);
  const unsent = bulk.action === "redrive" ? (bulk.outcomes?.not_yet_sent ?? 0) : 0;
  const ends = { onDone, onClose };
  if (what === "abort") {
    return html`<${Confirm}
      title="Abort bulk ${bulk.id}"
      button="Abort; leave ${left} as they are"
      danger
      text="What has been done stays done. It cannot be resumed."
      fields=${unsent > 0 && html`<${Check} ...${field("back")}>park again what it has made due and not sent yet: ${plural(unsent, "task")}<//>`}
      send=${(/** @type {any} */ given) => post(`${path}/abort`, { ...given, ...(unsent > 0 && form.back && { put_back: true }) })}
      said=${() => "Aborted."}
      ...${ends}
    />`;
  }
  return html`<${Confirm}
    title="Resume bulk ${bulk.id}"
    button="Resume with ${left} tasks"
    fields=${html`<${Field} label="Rate" hint="tasks a second; 0: as fast as possible" type="number" min=${0} step="any" ...${field("rate")} />`}
    send=${(/** @type {any} */ given) => post(`${path}/resume`, { ...given, ...(form.rate !== "" && { rate: Number(form.rate) }) })}
    said=${() => "Resumed."}
    ...${ends}
  />`;
}
