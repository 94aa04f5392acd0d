// Who is signed in, and what they may do.
import { atom, useAtom } from "./atom.js";
import { call, connection, get, post } from "./api.js";

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
