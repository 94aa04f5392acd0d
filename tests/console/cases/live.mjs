// What changes is seen without a reload; a switch stops that, and so does a hidden tab; then what was missed is read.
import { equal } from "../browser.mjs";

export async function run(test) {
  const page = await test.page();
  let connections = 0;
  page.on("request", request => {
    if (request.url().endsWith("/v1/events")) connections++;
  });
  await page.goto("/");
  await page.getByRole("switch", { name: "Live" }).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  const scheduled = of => of.locator(".totals li", { hasText: "Scheduled" }).locator("b");
  await scheduled(page).waitFor();
  let n = 0;
  const submit = () => test.api("/v1/tasks", { queue: "mails", delay: "2h", message_id: `live-${++n}-${process.pid}`, body: "hello" });
  const shown = async (of = page) => Number((await scheduled(of).innerText()).replaceAll(",", ""));
  const now = () => Number(test.sql("SELECT COUNT(*) FROM retry_current WHERE state = 'scheduled'"));
  // What the bad day left goes out after 30 s. Then nobody else changes the number.
  const soon = "SELECT COUNT(*) FROM retry_current WHERE state = 'publishing' OR (state = 'scheduled' AND next_due_at < UTC_TIMESTAMP(3) + INTERVAL 10 MINUTE)";
  await test.until("nothing is due soon", () => test.sql(soon) === "0", 120000);
  const before = now();
  await test.until("the first number", async () => (await shown()) === before);
  await submit();
  await test.until("the change is seen", async () => (await shown()) === before + 1);

  await page.getByRole("switch").click();
  await page.getByText("Live off").waitFor();
  // A page that is live shows what this one does not.
  const other = await test.page();
  await other.goto("/");
  await other.getByText("Live", { exact: true }).waitFor();
  await test.until("the other page's number", async () => (await shown(other)) === before + 1);
  await submit();
  await test.until("the other page sees the change", async () => (await shown(other)) === before + 2);
  equal(await shown(), before + 1, "with live updates off");
  await other.close();
  // A page that is opened then reads what it shows.
  const menu = page.getByRole("navigation", { name: "Console" });
  await menu.getByRole("link", { name: "Causes" }).click();
  await page.getByRole("heading", { name: "Causes", level: 1 }).waitFor();
  await menu.getByRole("link", { name: "Overview" }).click();
  await test.until("what was read", async () => (await shown()) === before + 2);
  // What only a reading shows is read again: it may have been missed.
  const readAgain = () => page.waitForResponse(response => response.url().includes("/v1/nodes"));
  let again = readAgain();
  await page.getByRole("switch").click();
  await again;
  await submit();
  await test.until("it is live again", async () => (await shown()) === before + 3);

  const earlier = connections;
  const hide = hidden =>
    page.evaluate(value => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  await hide(true);
  await page.getByText("Paused", { exact: true }).waitFor();
  await submit();
  again = readAgain();
  await hide(false);
  await again;
  await test.until("it is live after it was hidden", async () => (await shown()) === before + 4);
  equal(connections, earlier + 1, "connections after the tab was hidden");

  await chart(test);
  await typing(test, submit);
  await slowly(test, submit);
}

/** The chart follows. */
async function chart(test) {
  const page = await test.page();
  await page.goto("/");
  const sums = page.locator(".chart figcaption");
  await sums.waitFor({ state: "attached" });
  const failures = async () => Number(/failures ([\d,]+)/.exec(await sums.textContent())[1].replaceAll(",", ""));
  const before = await failures();
  test.shop("body", `chart-${process.pid}`, "hello");
  await test.until("the failure is in the chart", async () => (await failures()) > before);
  await page.close();
}

/** What one types into a filter stays while the list is read again. */
async function typing(test, change) {
  const page = await test.page();
  await page.goto("/console/audit");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByLabel("Who").pressSequentially("alice");
  const read = page.waitForResponse(response => response.url().includes("/v1/audit"));
  await change();
  await (await read).finished();
  await page.waitForTimeout(300); // it is shown
  equal(await page.getByLabel("Who").inputValue(), "alice", "what was typed");
  await page.close();
}

/** Where reading takes longer than the next change, the page shows what it has read, and gives nothing up. */
async function slowly(test, change) {
  const page = await test.page();
  const givenUp = [];
  page.on("requestfailed", request => {
    if (request.url().endsWith("/v1/stats")) givenUp.push(request.failure()?.errorText);
  });
  await page.route("**/v1/stats", async route => {
    await new Promise(done => setTimeout(done, 3500));
    await route.continue().catch(() => {}); // the page may be gone
  });
  await page.goto("/console/queues");
  await page.getByText("Live", { exact: true }).waitFor();
  let there = false;
  const row = page.getByRole("table", { name: "Queues" }).locator("tbody tr").first();
  const changing = async () => {
    while (!there) {
      await change();
      await page.waitForTimeout(500);
    }
  };
  await Promise.all([row.waitFor().finally(() => (there = true)), changing()]);
  equal(givenUp, [], "readings that were given up");
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
}
