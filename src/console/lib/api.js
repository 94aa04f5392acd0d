// The HTTP API, as any script uses it.
import { atom, useAtom } from "./atom.js";
import { parse, stringify } from "./json.js";
import { base } from "./router.js";

/** What the API answered instead of a result. */
export class ApiError extends Error {
  /** @param {number} status @param {any} problem */
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.code = problem.code || "";
    /** @type {any} */
    this.problem = problem;
    /** @type {{field: string, detail: string}[]} */
    this.errors = problem.errors || [];
  }
}

/** @type {{ csrf: string, onSignedOut: () => void }} */
export const connection = { csrf: "", onSignedOut: () => {} };

const WHAT_TO_DO = /** @type {Record<string, string>} */ ({
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

/** @param {any} error */
export function whatToDo(error) {
  return WHAT_TO_DO[error?.code] || "";
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body] a value; or a string, which is JSON already
 * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, options = {}) {
  const response = await send(method, path, body, options);
  const text = await response.text();
  return text && /json/.test(response.headers.get("Content-Type") || "") ? parse(text) : text;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
 */
export async function send(method, path, body, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && connection.csrf) headers["X-Rung-CSRF"] = connection.csrf;
  const payload = body === undefined || typeof body === "string" ? body : stringify(body);
  let response;
  try {
    response = await fetch(base + path, {
      method,
      headers,
      body: payload,
      signal: options.signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "network", detail: "The sidecar did not answer." });
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let problem;
  try {
    problem = parse(text);
  } catch {
    problem = { detail: `${response.status} ${response.statusText}` };
  }
  if (response.status === 401 && path !== "/v1/session") connection.onSignedOut();
  throw new ApiError(response.status, problem);
}

/** @param {string} path @param {{ signal?: AbortSignal }} [options] */
export const get = (path, options) => call("GET", path, undefined, options);
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => call("POST", path, body);

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

/**
 * @typedef {object} Session
 * @property {boolean} loading
 * @property {boolean} signed_in
 * @property {string} name
 * @property {string} role
 * @property {string[] | null} queues null: all
 * @property {Record<string, string>} may_not why not, by action
 * @property {string} way
 * @property {{ token: boolean, oidc: boolean }} sign_in
 * @property {{ name: string, url: string }[]} peers
 * @property {any} error
 */

/** @type {Session} */
const NOBODY = {
  loading: true,
  signed_in: false,
  name: "",
  role: "reader",
  queues: [],
  may_not: {},
  way: "open",
  sign_in: { token: true, oidc: false },
  peers: [],
  error: null,
};

export const session = atom(NOBODY);
export const useSession = () => useAtom(session);

/** @param {any} answer */
function take(answer) {
  connection.csrf = answer.csrf ?? "";
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

connection.onSignedOut = () => {
  const was = session.get();
  if (was.signed_in) session.set({ ...NOBODY, sign_in: was.sign_in, way: was.way, loading: false });
};

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
