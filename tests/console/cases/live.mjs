// What changes is seen without a reload; a switch stops that, and so does a hidden tab; then it resumes where it was.
import { equal, is } from "../browser.mjs";

export async function run(test) {
  const page = await test.page();
  /** @type {(string | undefined)[]} */
  const resumed = [];
  page.on("request", request => {
    if (request.url().endsWith("/v1/events")) resumed.push(request.headers()["last-event-id"]);
  });
  await page.goto("/");
  await page.getByRole("switch", { name: "Live" }).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  const scheduled = page.locator(".totals li", { hasText: "Scheduled" }).locator("b");
  await scheduled.waitFor();
  let n = 0;
  const submit = () => test.api("/v1/tasks", { queue: "mails", delay: "2h", message_id: `live-${++n}-${process.pid}`, body: "hello" });
  const shown = async () => Number((await scheduled.innerText()).replaceAll(",", ""));
  const now = () => Number(test.sql("SELECT COUNT(*) FROM retry_current WHERE state = 'scheduled'"));
  const before = now();
  await test.until("the first number", async () => (await shown()) === before);
  await submit();
  await test.until("the change is seen", async () => (await shown()) === before + 1);

  await page.getByRole("switch").click();
  await page.getByText("Live off").waitFor();
  await submit();
  await page.waitForTimeout(2500);
  equal(await shown(), before + 1, "with live updates off");
  await page.getByRole("switch").click();
  await test.until("it is live again", async () => (await shown()) === before + 2);
  is(resumed.at(-1), "it resumes with Last-Event-ID");

  const connections = resumed.length;
  const hide = hidden =>
    page.evaluate(value => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  await hide(true);
  await page.getByText("Paused", { exact: true }).waitFor();
  await submit();
  await hide(false);
  await test.until("it is live after it was hidden", async () => (await shown()) === before + 3);
  equal(resumed.length, connections + 1, "connections after the tab was hidden");
  is(resumed.at(-1), "it resumes with Last-Event-ID after it was hidden");
}
