// The HTTP API, as any script uses it.
import { base } from "./base.js";
import { parse, stringify } from "./json.js";

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
