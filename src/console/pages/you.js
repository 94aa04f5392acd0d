import { useEffect, useState } from "preact/hooks";
import { refusal, signIn, signOut, useSession, withQuery } from "../lib/api.js";
import { html } from "../lib/html.js";
import { useSend } from "../lib/live.js";
import { base, useLocation } from "../lib/router.js";
import { Field, Form } from "../parts/form.js";
import { Facts, Page, Problem, Section } from "../parts/page.js";
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
  const { error, send } = useSend();
  return html`<${Page}
    title="You"
    actions=${who.way !== "open" && html`<button type="button" onClick=${() => send(signOut)}>Sign out</button>`}
  >
    <${Problem} error=${error} />
    <${Facts}
      rows=${[
        ["Name", who.name],
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
  <//>`;
}

/** Where the sidecar sends a browser whose login at the identity provider failed, with `error`. */
export const SIGN_IN = "/console/sign-in";
/** @type {Record<string, string>} */
const REASONS = {
  login_ended: "This login has ended, or was begun in another browser. Sign in again.",
  provider: "The identity provider did not sign you in. The sidecar's log says why.",
  forbidden:
    "The identity provider knows you, but you have no role here. Ask an administrator; the sidecar's log says why.",
  unavailable: "The identity provider's keys are not there yet. Try again in a moment.",
};

export function SignIn() {
  const who = useSession();
  const { path, query } = useLocation();
  const returned = path === SIGN_IN;
  const code = (returned && query.get("error")) || "";
  // Anybody can make a link with a text: only ours are shown.
  const failed = code && (Object.hasOwn(REASONS, code) ? REASONS[code] : "The sidecar's log says why.");
  const [token, setToken] = useState("");
  const { busy, error, send } = useSend(failed ? { message: `Not signed in: ${failed}` } : null);
  useEffect(() => {
    document.title = "Sign in · Rung";
  }, []);
  const submit = async () => {
    await send(() => signIn(token.trim()));
    setToken("");
  };
  const back = returned ? base + "/" : location.pathname + location.search;
  return html`<main class="alone">
    <div class="card stack sign-in">
      <h1 class="row"><img src="/favicon.svg" alt="" width="28" height="28" /> Rung</h1>
      <p>Sign in to see what fails, why, and act on it.</p>
      ${who.sign_in.oidc && html`<a class="button primary" href=${withQuery("/v1/session/oidc", { to: back })}>Sign in with your identity provider</a>`}
      ${who.sign_in.oidc && who.sign_in.token && html`<p class="faint">or</p>`}
      ${
        who.sign_in.token &&
        html`<${Form} onSubmit=${submit} class="stack">
          <${Field} label="Token" type="password" name="token" value=${token} onInput=${setToken} required autofocus />
          <button class=${who.sign_in.oidc ? "" : "primary"} disabled=${busy || !token.trim()}>
            ${busy ? "Signing in…" : "Sign in"}
          </button>
          <p class="faint">
            A token of <code>http.tokens_file</code>, <code>http.token_file</code> or
            <code>http.read_token_file</code> of the config.
          </p>
        <//>`
      }
      <${Problem} error=${error} />
    </div>
  </main>`;
}
