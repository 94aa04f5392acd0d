// The HTTP API, as any script uses it.
import { atom, useAtom } from "./atom.js";
import { parse, stringify } from "./json.js";
import { base } from "./router.js";

/** For the header X-Rung-CSRF; "": not signed in by a cookie. */
let csrf = "";

export const WHAT_TO_DO = /** @type {Record<string, string>} */ ({
  unauthorized: "Sign in again.",
  forbidden: "Ask an administrator for a role that allows it; the page You shows what yours allows.",
  not_found: "It may have been deleted by retention, or the address is wrong.",
  timeout: "The server was too slow. Try again, or narrow the filter.",
  state_conflict: "It has changed meanwhile. Look at it again before you repeat the action.",
  version_conflict: "Somebody or something has changed it since you looked. Load it again, then decide.",
  too_large: "Make it smaller, or raise http.max_body in the config.",
  unavailable:
    "Broker or database are not reachable, or the sidecar is busy. Try again in a moment; the page Nodes shows problems.",
  internal_error: "The sidecar's log says more.",
  network: "Is the sidecar running, and can this browser reach it?",
});

/**
 * What the API answered; or an error with its code, its text and what is wrong with which field.
 * @param {string} method
 * @param {string} path
 * @param {any} [body] a value; or a string, which is JSON already
 * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && csrf) headers["X-Rung-CSRF"] = csrf;
  const payload = body === undefined || typeof body === "string" ? body : stringify(body);
  let response, text;
  try {
    response = await fetch(base + path, { method, headers, body: payload, signal: options.signal });
    text = await response.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw Object.assign(new Error("The sidecar did not answer."), { code: "network" });
  }
  if (response.ok) return text && /json/.test(response.headers.get("Content-Type") || "") ? parse(text) : text;
  let problem;
  try {
    problem = parse(text);
  } catch {
    problem = { detail: `${response.status} ${response.statusText}` };
  }
  if (response.status === 401 && path !== "/v1/session") signedOut();
  const { code, errors, detail, title } = problem;
  throw Object.assign(new Error(detail || title || `status ${response.status}`), { code, errors });
}

/** @param {string} path @param {{ signal?: AbortSignal }} [options] */
export const get = (path, options) => call("GET", path, undefined, options);
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => call("POST", path, body);
/** One action on one task, as it was looked at: what has changed since is not acted on. @param {any} task @param {string} action @param {any} body */
export const act = (task, action, body) =>
  call("POST", `/v1/tasks/${task.retry_id}/${action}`, body, { headers: { "If-Match": `"${task.version}"` } });

/**
 * A path with a query; what is empty is left out.
 * @param {string} path
 * @param {Record<string, any> | URLSearchParams} query
 */
export function withQuery(path, query) {
  const params = new URLSearchParams();
  const entries = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  for (const [name, value] of entries) {
    if (value !== undefined && value !== null && value !== "" && value !== false) params.append(name, String(value));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/**
 * A list to its end: its pages follow `next`.
 * @param {string} path
 * @param {string} list the member of the answer that it is
 * @param {{ signal?: AbortSignal }} [options]
 * @param {Record<string, any>} [query]
 */
export async function getAll(path, list, options, query) {
  const page = (/** @type {string} */ cursor) => get(withQuery(path, { ...query, limit: 1000, cursor }), options);
  const whole = await page("");
  for (let next = whole.next; next;) {
    const more = await page(next);
    whole[list].push(...more[list]);
    next = more.next;
  }
  return whole;
}

// Who is signed in, and what they may do.

const NOBODY = {
  loading: true,
  signed_in: false,
  name: "",
  role: "reader",
  queues: /** @type {string[] | null} null: all */ ([]),
  may_not: /** @type {Record<string, string>} why not, by action */ ({}),
  way: "open",
  sign_in: { token: true, oidc: false },
  peers: /** @type {{ name: string, url: string }[]} */ ([]),
  error: /** @type {any} */ (null),
};

export const session = atom(NOBODY);
export const useSession = () => useAtom(session);

/** @param {any} answer */
function take(answer) {
  csrf = answer.csrf ?? "";
  onQueue = new Map();
  session.set({ ...NOBODY, ...answer, loading: false });
}

export async function refresh() {
  try {
    take(await get("/v1/session"));
  } catch (error) {
    session.set({ ...NOBODY, loading: false, signed_in: session.get().signed_in, error });
  }
}

function signedOut() {
  const was = session.get();
  if (was.signed_in) session.set({ ...NOBODY, sign_in: was.sign_in, way: was.way, loading: false });
}

/** @param {string} token */
export async function signIn(token) {
  take(await post("/v1/session", { token }));
}

export async function signOut() {
  await call("DELETE", "/v1/session");
  await refresh();
}

/** Why what is not allowed on a queue, as the server says; null: it is being asked. @type {Map<string, Record<string, string> | null>} */
let onQueue = new Map();

/** @param {string} queue */
async function ask(queue) {
  const { may_not } = session.get();
  const mine = onQueue.set(queue, null);
  // Without an answer everything is offered that the role allows: the API decides.
  const you = await get(`/v1/you?queue=${encodeURIComponent(queue)}`).catch(() => ({ may_not }));
  mine.set(queue, you.may_not);
  session.set({ ...session.get() });
}

/**
 * Why not; "" if it is allowed.
 * @param {string} action as in GET /v1/you
 * @param {string | null} [queue] null: no queue is named; undefined: not known yet
 */
export function refusal(action, queue) {
  const { may_not, queues } = session.get();
  if (queue === undefined || queues === null) return may_not[action] ?? "";
  if (!onQueue.has(queue ?? "")) ask(queue ?? "");
  const answer = onQueue.get(queue ?? "");
  return answer ? (answer[action] ?? "") : "What you may do here is being asked.";
}
