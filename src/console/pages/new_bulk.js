// The assistant: how many it would be, how carefully to go about it, and then the set is frozen. Nothing moves here.
import { useRef } from "preact/hooks";
import { call, post, refusal } from "../lib/api.js";
import { count, duration, plural } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useData, useSend } from "../lib/live.js";
import { navigate, to } from "../lib/router.js";
import { BULK_ACTIONS, FilterChips, fromQuery, narrowed } from "../parts/filter.js";
import { Act, Check, Field, useForm } from "../parts/form.js";
import { Empty, Page, Problem } from "../parts/page.js";
import { Held } from "../parts/queues.js";
import { Text } from "../parts/text.js";

const NUMBER = { type: "number", min: 0, step: "any" };

/** @param {string} body @param {{ signal: AbortSignal }} options */
const dryRun = (body, options) => call("POST", "/v1/bulks", body, options);

/** @param {{ query: URLSearchParams }} props */
export function NewBulk({ query }) {
  const name = query.get("action") ?? "redrive";
  const action = BULK_ACTIONS[name];
  const filter = action ? narrowed(name, fromQuery(query)) : null;
  const { form: settings, field } = useForm({
    canary: name === "redrive" ? "10" : "",
    watch: "",
    rate: name === "redrive" ? "100" : "",
    ramp: false,
    stop: name === "redrive" ? "5" : "",
    limit: "",
    queue: "",
    reason: "",
  });
  const { busy, error, send } = useSend();
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const atMost = settings.limit.trim();
  // Without a limit it would be all that match: what was meant as one is never passed over.
  const noLimit = atMost && !/^0*[1-9]\d*$/.test(atMost) ? "“At most” is not a number of tasks, such as 500." : "";
  const limit = atMost && !noLimit ? { limit: Number(atMost) } : {};
  const why = action ? refusal(name, filter?.queue ?? null) || refusal("bulk", filter?.queue ?? null) : "";
  const base = filter && { action: name, filter, ...limit };
  const dry = useData(
    base && !why && !noLimit
      ? JSON.stringify({ ...base, dry_run: true, by: filter.queue ? "error_type" : "queue" })
      : null,
    { read: dryRun },
  );

  if (!filter) {
    const none = action
      ? `Nothing to do: ${action.label.toLowerCase()} is for tasks that are ${action.states.join(" or ")}.`
      : "No such action.";
    return html`<${Page} title=${action?.label ?? name} up=${["Tasks", "/console/tasks"]}
      ><${Empty} title=${none}
    /><//>`;
  }
  const up = filter.cause
    ? ["Cause", to("causes", filter.cause)]
    : ["Tasks", `/console/tasks?${new URLSearchParams(filter)}`];
  const counted = noLimit || dry.stale ? null : dry.data;
  const n = counted?.count ?? 0;
  const number = counted ? count(n) + (counted.or_more ? " or more" : "") : "…";

  const freeze = async () => {
    // A field of type number whose text is no number has the value "", as an empty one has.
    if (!form.current?.reportValidity()) return;
    const canary = Number(settings.canary);
    const body = {
      ...base,
      paused: true,
      ...(settings.reason.trim() && { reason: settings.reason.trim() }),
      ...(settings.rate !== "" && { rate: Number(settings.rate) }),
      ...(canary > 0 && { canary }),
      ...(canary > 0 && settings.watch.trim() && { watch: settings.watch.trim() }),
      ...(settings.ramp && { ramp: true }),
      ...(settings.stop !== "" && { stop_on_failures: `${settings.stop}%` }),
      ...(settings.queue.trim() && { elsewhere: { queue: settings.queue.trim() } }),
    };
    navigate(to("bulks", (await post("/v1/bulks", body)).id));
  };

  return html`<${Page} title="${action.label} ${n === 1 ? "1 task" : `${number} tasks`}" name=${action.label} up=${up}>
    <${FilterChips} filter=${filter} />
    <${Held} queue=${settings.queue.trim() || filter.queue} />
    <${Problem} error=${why ? { message: why } : dry.error} retry=${why ? undefined : dry.reload} />
    <div class="columns">
      <form ref=${form} class="stack card" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
        ${
          name === "redrive"
            ? html`<div class="grid">
                  <${Field}
                    label="Canary"
                    hint="so many first"
                    ...${NUMBER}
                    step="1"
                    max="1000"
                    ...${field("canary")}
                  />
                  <${Field} label="Watch" hint="at most" placeholder="as the queue says" ...${field("watch")} />
                  <${Field} label="Rate" hint="tasks a second" ...${NUMBER} ...${field("rate")} />
                  <${Field} label="Stop on failures" hint="above, in %" ...${NUMBER} max="100" ...${field("stop")} />
                </div>
                <${Check} ...${field("ramp")}>Ramp up: begin at 1 a second, double every 10 s up to the rate<//>
                <${Field} label="To another queue" hint="empty: where they came from" ...${field("queue")} />`
            : html`<${Field}
                label="Rate"
                hint="tasks a second; empty: as fast as possible"
                ...${NUMBER}
                ...${field("rate")}
              />`
        }
        <${Field}
          label="At most"
          hint="tasks, those received first; empty: all"
          inputMode="numeric"
          ...${field("limit")}
        />
        <${Field} label="Reason" hint="in the audit of each task" ...${field("reason")} />
        <${Problem} error=${error} />
        <div class="row">
          <${Act}
            class="primary"
            why=${why || noLimit || (busy ? "It is being sent." : counted ? (n ? "" : "No task matches.") : "The tasks are being counted.")}
            onClick=${() => send(freeze)}
          >
            ${busy ? "Freezing…" : `Freeze ${n === 1 ? "1 task" : `${number} tasks`}`}
          <//>
        </div>
        <p class="faint">
          This only chooses the tasks. You see them counted once more, and nothing moves before you start it.
        </p>
      </form>
      <aside class="stack">
        <div class="card">
          <h2>Dry run</h2>
          <p class="figure"><b>${number}</b> ${n === 1 ? "task matches" : "tasks match"} now</p>
          <${Groups} dry=${counted} />
          ${counted?.without_body > 0 && html`<p class="warn">${plural(counted.without_body, "task")} more are left out: the database could not store their bodies. Edit them.</p>`}
          ${(counted?.expired ?? []).map(
            (/** @type {any} */ one) =>
              html`<p class="warn">
                ${plural(one.tasks, "task")} of <${Text} value=${one.queue} /> failed more than
                ${duration(one.after_ms)} ago, its <code>give_up.after</code>. They are sent all the same.
              </p>`,
          )}
          <button type="button" class="small" onClick=${dry.reload}>Count again</button>
        </div>
        ${name === "redrive" && html`<${Plan} settings=${settings} n=${n} />`}
      </aside>
    </div>
  <//>`;
}

/** @param {{ dry: any }} props */
function Groups({ dry }) {
  const groups = /** @type {any[]} */ (dry?.groups ?? []);
  if (groups.length < 2 && !(groups.length && groups[0].value)) return null;
  return html`<ul class="lines">
    ${groups.slice(0, 8).map(
      group =>
        html`<li class="row between">
          <span><${Text} value=${group.value ?? "(none)"} /></span> <b>${count(group.count)}</b>
        </li>`,
    )}
    ${groups.length > 8 && html`<li class="faint">and ${groups.length - 8} more</li>`}
  </ul>`;
}

/** @param {{ settings: any, n: number }} props */
function Plan({ settings, n }) {
  const canary = Math.min(n, Number(settings.canary) || 0);
  const rest = n - canary;
  const rate = Number(settings.rate);
  return html`<div class="card">
    <h2>What will happen</h2>
    <ol class="lines">
      <li>The set is frozen: tasks that fail later are not in it.</li>
      ${canary > 0 && html`<li><b>${count(canary)}</b> go out. If one of them fails, the others are not sent.</li>`}
      ${rest > 0 && html`<li><b>${count(rest)}</b> ${canary ? "follow" : "go out"}${rate > 0 ? `, ${rate} a second: about ${duration((rest / rate) * 1000)}` : ", as fast as possible"}.</li>`}
      ${settings.stop !== "" && html`<li>If more than ${settings.stop} % fail, it stops by itself.</li>`}
    </ol>
    <p class="faint">It goes on when you close this page.</p>
  </div>`;
}
