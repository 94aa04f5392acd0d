// Some, all on the page, all that match: the number on the button is the number that is touched.
import { equal, is } from "../browser.mjs";

const count = (test, where) => Number(test.sql(`SELECT COUNT(*) FROM retry_current WHERE ${where}`));

export async function run(test) {
  const page = await test.page();
  await page.goto("/console/tasks?kind=retry&limit=25");
  await page.getByText(`25 on this page, ${count(test, "kind = 'retry'").toLocaleString("en-US")} in all`).waitFor();
  const overlaps = await page.locator(".field > input, .field > select").evaluateAll(fields => {
    const boxes = fields.map(field => field.getBoundingClientRect());
    return boxes.filter((a, i) => boxes.slice(i + 1).some(b => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
  });
  equal(overlaps, 0, "fields of the filter that lie on others");
  await page.goto("/console/tasks?queue=mails&state=parked&limit=25");
  const discarded = count(test, "state = 'discarded' AND queue = 'mails'");
  const gone = await page.locator("tbody a.id").first().innerText();
  await page.getByRole("checkbox", { name: /^Choose task/ }).first().check();
  await page.getByRole("checkbox", { name: /^Choose task/ }).nth(3).check();
  await page.getByRole("button", { name: "Discard 2" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard 2 tasks" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  equal(count(test, "state = 'discarded' AND queue = 'mails'"), discarded + 2, "discarded after two were chosen");

  await page.locator("tbody tr", { hasText: gone }).waitFor({ state: "detached" });
  await page.getByRole("checkbox", { name: "Choose all on this page" }).check();
  await page.getByRole("button", { name: "Redrive 25" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Redrive 25 tasks" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await test.sqlIs("25 by hand", "SELECT COUNT(*) >= 25 FROM retry_audit WHERE what = 'redrive' AND bulk_id IS NULL", 1);

  await anotherVersion(test, page);

  // The names of the config's index_headers are offered; behind a comma those that are left.
  await page.goto("/console/tasks?limit=25");
  await page.getByText("More", { exact: true }).click();
  const offered = () => page.locator("#list-headers option").evaluateAll(all => all.map(one => one.value).join());
  await page.getByLabel("Headers").focus();
  await test.until("header names are offered", async () => (await offered()) === "tenant=,region=");
  await page.getByLabel("Headers").fill("tenant=acme,");
  await test.until("the other header is offered", async () => (await offered()) === "tenant=acme, region=");

  // The filter is the address, and pages go by key.
  await page.goto("/console/tasks?limit=25");
  await page.getByLabel("Queue").fill("invoices");
  await page.getByLabel("Error type").fill("ConnectionError");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/queue=invoices&error_type=ConnectionError/);
  await page.locator(".table-box[aria-busy=false] tbody tr", { hasText: "invoices" }).first().waitFor();
  const first = await page.locator("tbody a.id").first().innerText();
  await page.getByRole("button", { name: "Next page" }).click();
  await page.waitForURL(/cursor=/);
  await test.until("another page", async () => (await page.locator("tbody a.id").first().innerText()) !== first);
  await page.goBack();
  await test.until("the first page again", async () => (await page.locator("tbody a.id").first().innerText()) === first);

  // All that match: the assistant of the action, a frozen set, then it happens.
  await page.goto("/console/tasks?queue=invoices&state=parked");
  const parked = count(test, "state = 'parked' AND queue = 'invoices'");
  is(parked > 50, "there are more than on one page");
  const number = parked.toLocaleString("en-US");
  await page.getByRole("link", { name: `Discard ${number}…` }).click();
  await page.getByLabel(/^Reason/).fill("stored by hand");
  await page.getByRole("button", { name: `Freeze ${number} tasks` }).click();
  await page.getByText("Nothing has moved.").waitFor();
  equal(count(test, "state = 'parked' AND queue = 'invoices'"), parked, "parked while the set is frozen");
  await page.getByRole("button", { name: `Discard ${number} tasks` }).click();
  await page.locator("h1 .badge", { hasText: "done" }).waitFor();
  equal(count(test, "state = 'parked' AND queue = 'invoices'"), 0, "parked after the discard");

  // A bulk is paused, resumed slower, and aborted.
  await page.goto("/console/act?action=redrive&queue=orders&state=parked");
  const freeze = page.getByRole("button", { name: /^Freeze/ });
  // What is no number of tasks is not passed over: that would be all of them.
  await page.getByRole("button", { name: /^Freeze \d/ }).waitFor();
  for (const wrong of ["1e3", "0", "-5", "1.5", "ten"]) {
    await page.getByLabel(/^At most/).fill(wrong);
    await page.locator('button[aria-disabled=true][title*="is not a number of tasks"]', { hasText: "Freeze" }).waitFor();
  }
  await page.getByLabel(/^At most/).fill("3");
  await page.getByRole("button", { name: "Freeze 3 tasks" }).waitFor();
  equal(await freeze.getAttribute("aria-disabled"), null, "whether 3 may be frozen");
  await page.getByLabel(/^At most/).fill("");
  await page.getByRole("button", { name: "Freeze 3 tasks" }).waitFor({ state: "hidden" });
  await page.getByLabel(/^Canary/).fill("");
  await page.getByLabel(/^Rate/).fill("1");
  await page.getByRole("button", { name: /^Freeze \d/ }).click();
  await page.getByRole("button", { name: /^Redrive/ }).click();
  await page.getByText(/^\s*[1-9]\d* of [\d,]+, /).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  const id = page.url().split("/").pop();
  await test.sqlIs("the pause", `SELECT state FROM retry_bulks WHERE bulk_id = ${id}`, "paused");
  await page.getByRole("button", { name: "Resume…" }).click();
  await page.getByLabel(/^Rate/).fill("2");
  await page.getByRole("button", { name: /^Resume with/ }).click();
  await test.sqlIs("the resume", `SELECT state, rate FROM retry_bulks WHERE bulk_id = ${id}`, test.sql("SELECT 'running', CAST(2 AS DOUBLE)"));
  await page.getByRole("button", { name: "Abort…" }).click();
  await page.getByRole("button", { name: /^Abort;/ }).click();
  await test.sqlIs("the abort", `SELECT state FROM retry_bulks WHERE bulk_id = ${id}`, "aborted");
}

/** What has changed since the question was asked stays as it is. */
async function anotherVersion(test, page) {
  const name = `chosen-${process.pid}`;
  const { retry_id: id } = await test.api("/v1/tasks", { queue: "mails", delay: "3h", message_id: name, body: "hello" });
  await page.goto(`/console/tasks?queue=mails&message_id=${name}`);
  await page.getByRole("checkbox", { name: `Choose task ${id}` }).check();
  await page.getByRole("button", { name: "Cancel 1" }).click();
  await page.getByRole("dialog").waitFor();
  await test.api(`/v1/tasks/${id}/reschedule`, { delay: "9h" });
  // The list has the new version, but one was asked about the old one.
  const row = page.locator("tbody tr", { hasText: id });
  await test.until("the list has changed", async () => /in [89]h/.test(await row.innerText()));
  await page.getByRole("dialog").getByRole("button", { name: "Cancel 1 task" }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("version_conflict").waitFor();
  equal(test.sql(`SELECT state FROM retry_current WHERE retry_id = ${id}`), "scheduled", "after a conflict");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
  await page.getByRole("button", { name: "Cancel 1" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel 1 task" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  equal(test.sql(`SELECT state FROM retry_current WHERE retry_id = ${id}`), "cancelled", "after the second look");
}
