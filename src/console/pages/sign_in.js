import { useEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { useSend } from "../lib/data.js";
import { base } from "../lib/base.js";
import { useLocation } from "../lib/router.js";
import { signIn, useSession } from "../lib/session.js";
import { Problem } from "../parts/problem.js";
import { Field } from "../parts/field.js";

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
  /** @param {Event} event */
  const submit = async event => {
    event.preventDefault();
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
        html`<form onSubmit=${submit} class="stack">
          <${Field} label="Token" type="password" name="token" value=${token} onInput=${setToken} required autofocus />
          <button class=${who.sign_in.oidc ? "" : "primary"} disabled=${busy || !token.trim()}>
            ${busy ? "Signing in…" : "Sign in"}
          </button>
          <p class="faint">
            A token of <code>http.tokens_file</code>, <code>http.token_file</code> or
            <code>http.read_token_file</code> of the config.
          </p>
        </form>`
      }
      <${Problem} error=${error} />
    </div>
  </main>`;
}
