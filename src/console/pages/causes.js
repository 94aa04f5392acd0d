import { post, refusal, useSession, withQuery } from "../lib/api.js";
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData, useSend } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { Act, Check, Field, Form, say, useAddress, useForm } from "../parts/form.js";
import { Empty, Facts, Page, Pager, Problem, Section } from "../parts/page.js";
import { Bar } from "../parts/pictures.js";
import { actOn, CauseTable, TaskTable } from "../parts/tables.js";
import { Badge, QueueLink, Text, Time } from "../parts/text.js";

const STATES = ["new", "known", "working", "ignored", "resolved", "regressed"];
const SHOWN = [["", "all states"], ["new,regressed", "new or regressed"], ...STATES];

const CHANGES = { on: (/** @type {any} */ changes) => changes.causes, every: 2000 };

/** @param {{ query: URLSearchParams }} props */
export function Causes({ query }) {
  const all = query.get("all") === "true";
  const path = withQuery("/v1/causes", {
    queue: query.get("queue"),
    state: query.get("state"),
    with_tasks: !all,
    limit: 50,
    cursor: query.get("cursor"),
  });
  const loaded = useData(path, CHANGES);
  const { data, stale } = loaded;
  const filtered = query.get("queue") || query.get("state") || query.get("cursor");
  return html`<${Page} title="Causes" of=${loaded}>
    <p class="lead">Failures with the same error are one cause. Mend it, then send its parked tasks again.</p>
    <div class="filters grid">
      <${Field} label="Queue" ...${useAddress(query, "queue")} />
      <${Field} label="State" options=${SHOWN} ...${useAddress(query, "state")} />
      <${Check}
        value=${all}
        onInput=${(/** @type {boolean} */ on) => setQuery({ all: on ? "true" : null, cursor: null })}
        >also without tasks<//
      >
    </div>
    ${
      data &&
      (data.causes.length
        ? html`<${CauseTable} causes=${data.causes} busy=${stale} />
            <${Pager} query=${query} next=${data.next} shown=${data.causes.length} what="cause" />`
        : filtered
          ? html`<${Empty} title="No cause matches."
              ><p><a href="/console/causes">Show all</a></p><//
            >`
          : html`<${Empty} title="Nothing fails." command="rung attach QUEUE">
              <p>A cause appears here when a message of an attached queue fails. To attach a queue:</p>
            <//>`)
    }
  <//>`;
}

/** @param {{ params: { id: string } }} props */
export function Cause({ params }) {
  const path = `/v1/causes/${encodeURIComponent(params.id)}`;
  const loaded = useData(path, CHANGES);
  const { data: cause, reload } = loaded;
  const tasks = useData(
    withQuery("/v1/tasks", { cause: params.id, state: "parked,scheduled,publishing,awaiting", limit: 20 }),
    CHANGES,
  );
  const up = /** @type {[string, string]} */ (["Causes", "/console/causes"]);
  if (!cause) return html`<${Page} title="Cause" up=${up} of=${loaded} />`;
  const underWay = cause.scheduled;
  const why = refusal("bulk", cause.queue);
  const noneParked = cause.parked ? "" : "Nothing of it is parked.";
  const noneScheduled = underWay ? "" : "Nothing of it is scheduled.";
  const title = cause.error_type || (cause.sample ?? cause.cause_id).split("\n")[0].slice(0, 90);
  return html`<${Page}
    title=${html`<${Text} value=${title} />`}
    name="Cause ${cause.cause_id}"
    up=${up}
    badge=${html`<${Badge} is=${cause.state} />`}
    actions=${html`
      <${Act} class="primary" href=${actOn(cause)} why=${why || noneParked}>Redrive ${count(cause.parked)} parked<//>
      <${Act} href=${actOn(cause, "cancel")} why=${why || noneScheduled}>Cancel scheduled<//>
      <${Act} class="red" href=${actOn(cause, "discard")} why=${why || noneParked}>Discard ${count(cause.parked)}<//>
    `}
    of=${loaded}
  >
    <div class="columns">
      <div>
        <${Section} title="One of its errors">
          <pre tabindex="0"><${Text} value=${cause.sample} lines /></pre>
        <//>
        <${Section} title="Its tasks">
          <${Bar}
            label="Tasks"
            total=${cause.parked + underWay + cause.succeeded}
            parts=${[
              { label: "parked", n: cause.parked, tone: "red" },
              { label: "under way", n: underWay, tone: "blue" },
              { label: "succeeded", n: cause.succeeded, tone: "green" },
            ]}
          />
          <${Facts}
            rows=${[
              ["Queue", cause.queue && html`<${QueueLink} queue=${cause.queue} />`],
              ["Failures of the last hour", count(cause.last_hour)],
              ["Tasks ever", count(cause.total)],
              ["First seen", html`<${Time} at=${cause.first_seen} />`],
              ["Last seen", html`<${Time} at=${cause.last_seen} />`],
              ["Got worse", cause.worse_at && html`<${Time} at=${cause.worse_at} />`],
              ["Id", html`<code>${cause.cause_id}</code>`],
            ]}
          />
        <//>
      </div>
      <${Triage} key=${cause.cause_id} cause=${cause} path=${path} onDone=${reload} />
    </div>
    ${(cause.by_header ?? [])
      .filter((/** @type {any} */ header) => header.count > 0)
      .map(
        (/** @type {any} */ header) =>
          html`<${Section} title="By ${header.by}">
            <${Facts}
              rows=${header.groups
                .slice(0, 10)
                .map((/** @type {any} */ group) => [
                  group.value === null ? "without" : html`<${Text} value=${group.value} />`,
                  count(group.count),
                ])}
            />
          <//>`,
      )}
    <${Section}
      title="Parked and under way"
      actions=${html`<a class="button small" href=${withQuery("/console/tasks", { cause: params.id })}>All of its tasks</a>`}
    >
      <${Problem} error=${tasks.error} />
      ${tasks.data && (tasks.data.tasks.length ? html`<${TaskTable} tasks=${tasks.data.tasks} without=${["Queue"]} />` : html`<p class="faint">None.</p>`)}
    <//>
  <//>`;
}

/** What one can say of a cause: the button, the state, whether it is offered, what is said then. @type {[string, string, (state: string) => boolean, string][]} */
const WORDS = [
  ["Stop ignoring", "new", state => state === "ignored", "It is new again."],
  ["Ignore", "ignored", state => state !== "ignored", "Ignored until it gets worse."],
  ["Mark as known", "known", state => state === "new" || state === "regressed", "It is known."],
  ["Mark as resolved", "resolved", state => state !== "resolved", "It is resolved, until it fails again."],
];

/** What a person says about it. @param {{ cause: any, path: string, onDone: () => void }} props */
function Triage({ cause, path, onDone }) {
  const { name, way } = useSession();
  const { form, setForm, field } = useForm({
    note: cause.note ?? "",
    link: cause.link ?? "",
    owner: cause.owner ?? "",
  });
  const { error, send } = useSend();
  const why = refusal("triage", cause.queue);
  /** @param {any} body @param {string} done */
  const set = (body, done) =>
    send(async () => {
      const answer = await post(path, body);
      setForm({ ...form, owner: answer.owner ?? "" });
      say(done);
      onDone();
    });
  const save = () => why || set({ owner: form.owner.trim(), note: form.note, link: form.link.trim() }, "Saved.");
  const safeLink = /^https?:\/\//i.test(cause.link ?? "");
  return html`<aside class="card">
    <h2>Triage</h2>
    ${cause.note && html`<p class="note"><${Text} value=${cause.note} lines /></p>`}
    ${
      safeLink &&
      html`<p>
        <a href=${cause.link} rel="noreferrer noopener" target="_blank"><${Text} value=${cause.link} /> ↗</a>
      </p>`
    }
    <div class="row">
      ${cause.owner !== name && way !== "open" && html`<${Act} why=${why} onClick=${() => set({ owner: name }, "You work on it.")}>I work on it<//>`}
      ${WORDS.filter(([, , from]) => from(cause.state)).map(([word, state, , done]) => html`<${Act} why=${why} onClick=${() => set({ state }, done)}>${word}<//>`)}
    </div>
    <${Form} class="stack" onSubmit=${save}>
      <${Field} label="Owner" ...${field("owner")} />
      <${Field} label="Note" rows="4" spellcheck maxlength="4000" ...${field("note")} />
      <${Field} label="Link" hint="a ticket" placeholder="https://" ...${field("link")} />
      <${Problem} error=${error} />
      <div class="row end"><button disabled=${!!why} title=${why}>Save</button></div>
    <//>
  </aside>`;
}
