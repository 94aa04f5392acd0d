// Who is signed in, and what they may do.
import { atom, useAtom } from "./atom.js";
import { call, connection, get, ifThere, post } from "./api.js";

/**
 * @typedef {object} Session
 * @property {boolean} loading
 * @property {boolean} signed_in
 * @property {string} name
 * @property {string} role
 * @property {string[] | null} queues null: all
 * @property {string[]} may
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
  may: [],
  way: "open",
  sign_in: { token: true, oidc: false },
  peers: [],
  error: null,
};

export const session = atom(NOBODY);
export const useSession = () => useAtom(session);

/** @param {any} answer */
async function take(answer) {
  connection.csrf = answer?.csrf ?? "";
  if (answer && !answer.signed_in) {
    session.set({ ...NOBODY, ...answer, loading: false });
    return;
  }
  const you = answer?.may ? {} : await get("/v1/you");
  session.set({ ...NOBODY, way: "open", ...answer, ...you, signed_in: true, loading: false });
}

export async function refresh() {
  try {
    await take(await ifThere(get("/v1/session")));
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
  await take(await post("/v1/session", { token }));
}

export async function signOut() {
  await call("DELETE", "/v1/session");
  await refresh();
}

const LEAST = /** @type {Record<string, string>} */ ({ body: "editor", edit: "editor", adopt: "admin" });

/** @param {string} pattern @param {string} name */
function matches(pattern, name) {
  const parts = pattern.split("*").map(part => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(name);
}

/**
 * Why not; "" if it is allowed.
 * @param {string} action as in GET /v1/you
 * @param {string | null} [queue] null: all queues; undefined: not known yet
 */
export function refusal(action, queue) {
  const { may, role, queues, name } = session.get();
  if (!may.includes(action)) return `This needs the role ${LEAST[action] ?? "operator"}; yours is ${role}.`;
  if (queue === undefined || queues === null || queues.includes("*")) return "";
  if (queue === null) return `${name} may act only on some queues: choose one of them (${queues.join(", ")}).`;
  return queues.some(pattern => matches(pattern, queue)) ? "" : `${name} may not act on the queue ${queue}.`;
}
