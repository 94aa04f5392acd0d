import { html } from "../lib/html.js";
import { to } from "../lib/router.js";
import { withQuery } from "../lib/api.js";
import { count, percent, plural } from "../lib/format.js";
import { held } from "../lib/queues.js";
import { duration } from "../lib/time.js";
import { CauseTable } from "./cause_table.js";
import { Badge } from "./badge.js";
import { Section } from "./page.js";
import { ErrorText, Text } from "./text.js";
import { Time } from "./time.js";

const MOST_HELD = 20;

/** What needs a person, the worst first. Without `stats` while tasks are being counted. @param {{ data: any, queues: any[] }} props */
export function Attention({ data, queues }) {
  const { stats, nodes, causes } = data;
  /** @type {any[]} */
  const rows = [];
  for (const node of nodes.nodes.filter((/** @type {any} */ n) => n.state === "dead")) {
    rows.push(
      row(
        "dead",
        html`Sidecar <a href="/console/nodes"><${Text} value=${node.node} /></a> has been away since
          <${Time} at=${node.seen_at} />`,
      ),
    );
  }
  for (const node of nodes.nodes.filter((/** @type {any} */ n) => n.state === "live")) {
    for (const problem of node.problems) {
      rows.push(
        row(
          "failed",
          html`<a href="/console/nodes"><${Text} value=${node.node} /></a>: <${Text} value=${problem.detail} />`,
          problem.name,
        ),
      );
    }
    if (node.config_differs)
      rows.push(
        row(
          "paused",
          html`<a href="/console/nodes"><${Text} value=${node.node} /></a> has another config than the others`,
          "config differs",
        ),
      );
  }
  if (nodes.unowned.shards.length) {
    rows.push(
      row(
        "failed",
        html`<a href="/console/nodes">${plural(nodes.unowned.shards.length, "shard")}</a> without a sidecar,
          ${count(nodes.unowned.overdue)} overdue`,
        "unowned",
      ),
    );
  }
  if (stats?.overdue_beyond_bound > 0) {
    const id = stats.oldest_overdue_id;
    rows.push(
      row(
        "failed",
        html`${plural(stats.overdue_beyond_bound, "task")} later than they may be; the oldest,
        ${id ? html`<a href=${to("tasks", id)} class="id">${id}</a>` : ""}, by ${duration(stats.oldest_overdue_ms ?? 0)}`,
        "late",
      ),
    );
  }
  const all = queues.filter(held);
  for (const queue of all.slice(0, MOST_HELD)) {
    const gate = queue.gate;
    rows.push(
      row(
        queue.state,
        html`<a href=${to("queues", queue.queue)}><${Text} value=${queue.queue} /></a> is held, ${count(queue.waiting)}
          wait${gate?.reason ? html`: <${ErrorText} value=${gate.reason} />` : null}${gate?.until ? html`, until <${Time} at=${gate.until} />` : null}`,
      ),
    );
  }
  if (all.length > MOST_HELD)
    rows.push(
      row("paused", html`<a href="/console/queues">${count(all.length - MOST_HELD)} more queues</a> are held`, "held"),
    );
  for (const promise of stats?.late_by ?? []) {
    const share = promise.last_hour?.share;
    if (share !== null && share !== undefined && share < 0.999) {
      rows.push(
        row(
          "timed_out",
          html`<a href=${to("queues", promise.queue)}><${Text} value=${promise.queue} /></a>: ${percent(share)} on time
            in the last hour`,
          "late against its promise",
        ),
      );
    }
  }
  const parked = stats?.totals.parked ?? 0;
  return html`<${Section}
    title="Needs a person"
    actions=${parked > 0 && html`<a class="button small" href=${withQuery("/console/tasks", { state: "parked" })}>${plural(parked, "parked task")}</a>`}
  >
    ${
      rows.length > 0 &&
      html`<ul class="attention">
        ${rows}
      </ul>`
    }
    ${
      causes.length > 0 &&
      html`<h3>Causes that are new or came back, and those that somebody works on</h3>
        <${CauseTable} causes=${causes} brief />
        ${data.moreCauses && html`<p><a href="/console/causes?state=new,regressed,working">All of them</a></p>`}`
    }
    ${stats && !rows.length && !causes.length && html`<p class="calm"><span aria-hidden="true">✓</span> Nothing. No new cause, no held queue, all sidecars are there.</p>`}
  <//>`;
}

/** @param {string} is @param {any} what @param {string} [label] */
const row = (is, what, label) => html`<li><${Badge} is=${is} label=${label} /> <span>${what}</span></li>`;
