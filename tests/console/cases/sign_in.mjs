// Signing in by a token: the cookie, a wrong token, CSRF, signing out.
import { createServer, request as ask } from "node:http";
import { equal, is } from "../browser.mjs";

export async function run(test) {
  const page = await test.page({}, test.world.signedIn);
  await page.goto("/console/causes");
  await page.getByLabel("Token").fill("a-wrong-token-0123456789");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Token").fill(test.world.tokens.admin);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  // One is where one wanted to go.
  await page.getByRole("heading", { name: "Causes", level: 1 }).waitFor();
  const [cookie] = (await page.context().cookies()).filter(one => one.name.startsWith("rung_session_"));
  equal([cookie.httpOnly, cookie.sameSite], [true, "Strict"], "the cookie");
  is(!(await page.evaluate(() => document.cookie)).includes("rung_session"), "no script sees the cookie");
  const status = await page.evaluate(async () => {
    const answer = await fetch("/v1/queues/orders/pause", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
    return answer.status;
  });
  is(status === 403 || status === 400, `a change without the header of CSRF is refused: ${status}`);
  equal(test.sql("SELECT COUNT(*) FROM retry_queues WHERE state = 'paused'"), "0", "paused queues");
  await page.goto("/console/you");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.reload();
  await page.getByLabel("Token").waitFor();
  await failedLogin(test);
  await ended(test);
  await belowAPath(test);
}

/** A proxy takes off the path, which only the browser knows. */
async function belowAPath(test) {
  const { hostname, port } = new URL(test.world.signedIn);
  const proxy = createServer((from, to) => {
    const { method, headers, url } = from;
    const asked = ask({ hostname, port, method, headers, path: url.slice("/rung".length) }, answer => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    asked.on("error", () => to.destroy());
    to.on("close", () => asked.destroy());
    from.pipe(asked);
  });
  await new Promise(done => proxy.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${proxy.address().port}/rung`;
  const page = await test.page({}, url); // which complains of requests beside it
  await page.goto(`${url}/console/causes`);
  await page.getByLabel("Token").fill(test.world.tokens.reader);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Causes", level: 1 }).waitFor();
  await page.getByRole("navigation").getByRole("link", { name: "Queues" }).click();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  equal(page.url(), `${url}/console/queues`, "the address below the path");
  await page.reload();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  await page.close();
  proxy.closeAllConnections();
  proxy.close();
}

/** Why is shown by its code, and one does not come back to that address. */
async function failedLogin(test) {
  const page = await test.page({}, test.world.signedIn);
  // As if there were a provider.
  await page.route("**/v1/session", async route => {
    if (route.request().method() !== "GET") return route.continue();
    const response = await route.fetch();
    const json = await response.json();
    return route.fulfill({ response, json: { ...json, sign_in: { token: true, oidc: true } } });
  });
  await page.goto("/console/sign-in?error=Call%20555-0100");
  await page.getByRole("alert").getByText("Not signed in: The sidecar's log says why.").waitFor();
  await page.goto("/console/sign-in?error=login_ended");
  await page.getByRole("alert").getByText("This login has ended").waitFor();
  const login = page.getByRole("link", { name: "Sign in with your identity provider" });
  equal(await login.getAttribute("href"), "/v1/session/oidc?to=%2F", "where the next login leads");
  await page.getByLabel("Token").fill(test.world.tokens.reader);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  equal(new URL(page.url()).pathname, "/", "the address after the sign-in");
  // Who is signed in already, by another tab, has no use for the page.
  await page.goto("/console/sign-in?error=late");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  equal(new URL(page.url()).pathname, "/", "the address of who was signed in");
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

/** A sign-in that has ended is noticed by the events, also on a page that reads nothing. */
async function ended(test) {
  const page = await test.signIn("reader");
  await page.goto("/console/you");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.context().clearCookies();
  await page.getByRole("switch").click();
  await page.getByText("Live off").waitFor();
  await page.getByRole("switch").click();
  await page.getByLabel("Token").waitFor();
}
