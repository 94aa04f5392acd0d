import { useEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { withQuery } from "../lib/api.js";
import { useLocation } from "../lib/router.js";
import { session, signIn, useSession } from "../lib/session.js";
import { Problem } from "../parts/problem.js";
import { Field } from "../parts/field.js";

/** Where the sidecar sends a browser whose login at the identity provider failed, with `error`. */
export const SIGN_IN = "/console/sign-in";
const LONGEST_REASON = 500;

export function SignIn() {
  const who = useSession();
  const { path, query } = useLocation();
  const returned = path === SIGN_IN;
  const failed = returned ? (query.get("error") ?? "").slice(0, LONGEST_REASON) : "";
  const [token, setToken] = useState("");
  const [error, setError] = useState(/** @type {any} */ (failed ? { message: `Not signed in: ${failed}` } : null));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Rung";
  }, []);
  /** @param {Event} event */
  const submit = async event => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await signIn(token.trim());
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
      if (!session.get().signed_in) setToken("");
    }
  };
  const back = returned ? "/" : location.pathname + location.search;
  return html`<main class="alone">
    <div class="card sign-in">
      <h1><img src="/favicon.svg" alt="" width="28" height="28" /> Rung</h1>
      <p>Sign in to see what fails, why, and act on it.</p>
      ${who.sign_in.oidc && html`<a class="button primary" href=${withQuery("/v1/session/oidc", { to: back })}>Sign in with your identity provider</a>`}
      ${who.sign_in.oidc && who.sign_in.token && html`<p class="or"><span>or</span></p>`}
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
