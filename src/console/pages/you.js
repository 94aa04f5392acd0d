import { html } from "../lib/html.js";
import { useSend } from "../lib/data.js";
import { useAtom } from "../lib/atom.js";
import { liveSwitch, zone } from "../lib/prefs.js";
import { refusal, signOut, useSession } from "../lib/session.js";
import { Check } from "../parts/field.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Problem } from "../parts/problem.js";
import { Text } from "../parts/text.js";

const WHAT = /** @type {[string, string][]} */ ([
  ["read", "see everything but the contents of messages"],
  ["submit", "submit a new task"],
  ["fire", "make a task due now"],
  ["reschedule", "move a task to another time"],
  ["cancel", "cancel a scheduled task"],
  ["discard", "give a parked task up"],
  ["redrive", "send a parked task again"],
  ["finish", "report how a task ended"],
  ["bulk", "do one of these to many tasks"],
  ["pause", "pause a queue"],
  ["resume", "resume a queue"],
  ["triage", "say what a cause is, and who works on it"],
  ["body", "see the contents of messages"],
  ["edit", "edit a message and send it"],
  ["adopt", "change settings of the whole system"],
]);

const WAYS = /** @type {Record<string, string>} */ ({
  open: "without, on this machine only",
  token: "by a token",
  oidc: "by your identity provider",
});

export function You() {
  const who = useSession();
  const zoned = useAtom(zone);
  const live = useAtom(liveSwitch);
  const { error, send } = useSend();
  return html`<${Page}
    title="You"
    actions=${who.way !== "open" && html`<button type="button" onClick=${() => send(signOut)}>Sign out</button>`}
  >
    <${Problem} error=${error} />
    <${Facts}
      rows=${[
        ["Name", html`<${Text} value=${who.name} />`],
        ["Role", html`<b>${who.role}</b>`],
        ["Queues", who.queues && !who.queues.includes("*") ? html`<${Text} value=${who.queues.join(", ")} />` : "all"],
        ["Signed in", WAYS[who.way] ?? who.way],
      ]}
    />
    <${Section} title="What you may do">
      <ul class="may lines">
        ${WHAT.map(([action, what]) => {
          const why = refusal(action);
          return html`<li class="row ${why && "faint"}">
            <span class="badge ${why ? "gray" : "green"}">${why ? "✕ no" : "✓ yes"}</span> <b>${action}</b>
            <span>${what}</span>${why && html` <small>${why}</small>`}
          </li>`;
        })}
      </ul>
    <//>
    <${Section} title="This browser">
      <${Check} checked=${zoned === "local"} onChange=${(/** @type {boolean} */ on) => zone.set(on ? "local" : "utc")}
        >times in local time instead of UTC<//
      >
      <${Check} checked=${live === "on"} onChange=${(/** @type {boolean} */ on) => liveSwitch.set(on ? "on" : "off")}
        >live updates<//
      >
    <//>
  <//>`;
}
