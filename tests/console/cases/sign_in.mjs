// Signing in by a token: the cookie, a wrong token, CSRF, signing out.
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
  await page.getByRole("heading", { name: "Causes" }).waitFor();
  const [cookie] = (await page.context().cookies()).filter(one => one.name === "rung_session");
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
}
