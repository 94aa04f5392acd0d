import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { withQuery } from "../lib/api.js";
import { count, percent, plural } from "../lib/format.js";
import { held } from "../lib/queues.js";
import { duration } from "../lib/time.js";
import { CauseTable } from "./cause_table.js";
import { Badge } from "./badge.js";
import { Section } from "./page.js";
import { ErrorText, QueueLink, Text } from "./text.js";
import { Time } from "./time.js";

const MOST_HELD = 20;

/** What needs a person, the worst first. Without `stats` while tasks are being counted. @param {{ data: any, queues: import("../lib/queues.js").QueueSummary[] }} props */
export function Attention({ data, queues }) {
  const { stats, nodes, causes } = data;
  const live = nodes.nodes.filter((/** @type {any} */ n) => n.state === "live");
  const all = queues.filter(held);
  const late = (stats?.late_by ?? []).filter((/** @type {any} */ one) => (one.last_hour.share ?? 1) < 0.999);
  const rows = [
    ...nodes.nodes
      .filter((/** @type {any} */ n) => n.state === "dead")
      .map((/** @type {any} */ n) =>
        row("dead", html`Sidecar ${nodeLink(n)} has been away since <${Time} at=${n.seen_at} />`),
      ),
    ...live.flatMap((/** @type {any} */ n) =>
      n.problems.map((/** @type {any} */ problem) =>
        row("failed", html`${nodeLink(n)}: <${Text} value=${problem.detail} />`, problem.name),
      ),
    ),
    ...live
      .filter((/** @type {any} */ n) => n.config_differs)
      .map((/** @type {any} */ n) =>
        row("paused", html`${nodeLink(n)} has another config than the others`, "config differs"),
      ),
    nodes.unowned.shards.length > 0 &&
      row(
        "failed",
        html`<a href="/console/nodes">${plural(nodes.unowned.shards.length, "shard")}</a> without a sidecar,
          ${count(nodes.unowned.overdue)} overdue`,
        "unowned",
      ),
    stats?.overdue_beyond_bound > 0 &&
      row(
        "failed",
        html`${plural(stats.overdue_beyond_bound, "task")} later than they may be; the oldest,
          <a href=${to("tasks", stats.oldest_overdue_id ?? "")} class="id">${stats.oldest_overdue_id}</a>, by
          ${duration(stats.oldest_overdue_ms ?? 0)}`,
        "late",
      ),
    ...all
      .slice(0, MOST_HELD)
      .map(queue =>
        row(
          queue.state,
          html`<${QueueLink} queue=${queue.queue} /> is held, ${count(queue.waiting)}
            wait${queue.reason && html`: <${ErrorText} value=${queue.reason} />`}${queue.until && html`, until <${Time} at=${queue.until} />`}`,
        ),
      ),
    all.length > MOST_HELD &&
      row("paused", html`<a href="/console/queues">${count(all.length - MOST_HELD)} more queues</a> are held`, "held"),
    ...late.map((/** @type {any} */ one) =>
      row(
        "timed_out",
        html`<${QueueLink} queue=${one.queue} />: ${percent(one.last_hour.share)} on time in the last hour`,
        "late against its promise",
      ),
    ),
  ].filter(Boolean);
  const parked = stats?.totals.parked ?? 0;
  return html`<${Section}
    title="Needs a person"
    actions=${parked > 0 && html`<a class="button small" href=${withQuery("/console/tasks", { state: "parked" })}>${plural(parked, "parked task")}</a>`}
  >
    ${
      rows.length > 0 &&
      html`<ul class="attention lines">
        ${rows}
      </ul>`
    }
    ${
      causes.length > 0 &&
      html`<h3>Causes that are new or came back, and those that somebody works on</h3>
        <${CauseTable} causes=${causes} brief />
        ${data.moreCauses && html`<p><a href="/console/causes?state=new,regressed,working">All of them</a></p>`}`
    }
    ${stats && !rows.length && !causes.length && html`<p class="green"><span aria-hidden="true">✓</span> Nothing. No new cause, no held queue, all sidecars are there.</p>`}
  <//>`;
}

/** @param {any} node */
const nodeLink = node => html`<a href="/console/nodes"><${Text} value=${node.node} /></a>`;

/** @param {string} is @param {any} what @param {string} [label] */
const row = (is, what, label) => html`<li class="row"><${Badge} is=${is} label=${label} /> <span>${what}</span></li>`;
