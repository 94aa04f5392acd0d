// Pause with a reason, resume, both in the audit; what-if; triage of a cause.
import { equal } from "../browser.mjs";

export async function run(test) {
  const page = await test.page();
  await page.goto("/console/queues");
  await page.getByRole("link", { name: "shipments" }).click();
  // The server says which entry it follows: "shipment?".
  await page.getByRole("img", { name: /^Ladder: level 1 after 1h/ }).waitFor();
  await page.locator(".facts", { hasText: "shipment?" }).waitFor();
  await page.locator("h1 .badge", { hasText: /^attached$/ }).waitFor();
  await page.getByRole("button", { name: "Pause…" }).click();
  await page.getByLabel(/^For/).fill("2h");
  await page.getByLabel(/^Reason/).fill("the depot is closed");
  await page.getByRole("button", { name: /^Pause:/ }).click();
  await page.locator("h1 .badge", { hasText: "paused" }).waitFor();
  equal(test.sql("SELECT state, reason FROM retry_queues WHERE queue = 'shipments'"), "paused\tthe depot is closed", "the pause");
  await page.goto("/");
  await page.locator(".attention", { hasText: "the depot is closed" }).waitFor();
  // Pages of one queue each: what is held is on the last one.
  await page.route(/\/v1\/queues\?/, route => route.continue({ url: route.request().url().replace("limit=1000", "limit=1") }));
  await page.goto("/console/queues");
  await page.locator("tr", { hasText: "shipments" }).locator(".badge", { hasText: "paused" }).waitFor();
  await page.unrouteAll({ behavior: "wait" });
  for (const path of ["/console/act?action=redrive&queue=shipments", `/console/tasks/${(await test.task({ queue: "shipments", state: "parked" })).retry_id}/edit`]) {
    await page.goto(path);
    await page.locator(".warn", { hasText: /shipments is held until .*the depot is closed/ }).waitFor();
  }
  await page.goto("/console/queues/no-such-queue");
  await page.getByRole("alert").getByText("is not known").waitFor();
  equal(await page.getByRole("button", { name: "Pause…" }).count() + (await page.locator("svg.ladder").count()), 0, "pauses and ladders of a queue that is not there");
  await page.goto("/console/queues/shipments");
  await page.getByRole("button", { name: "Resume…" }).click();
  await page.getByRole("button", { name: /^Resume:/ }).click();
  await page.locator("h1 .badge", { hasText: "flowing" }).waitFor();
  equal(test.sql("SELECT COUNT(*) FROM retry_queues WHERE queue = 'shipments' AND state = 'paused'"), "0", "paused after the resume");
  await auditedBy(test, page);
  await page.goto("/console/queues/shipments");

  await page.getByLabel("Error type").fill("TimeoutError");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.locator("form [role=status] .facts").waitFor();

  await page.goto("/console/causes?queue=shipments");
  await page.getByRole("img", { name: /^Failures by 5 minutes of the last hour: (?=.*[1-9])(\d+, ){11}\d+$/ }).waitFor();
  await page.locator("a.cause-name").click();
  await page.getByLabel("Owner").fill("alice");
  await page.getByLabel("Note").fill("depot HAM is closed for stocktaking");
  await page.getByLabel(/^Link/).fill("https://tickets.example.org/4711");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator("h1 .badge", { hasText: "working" }).waitFor();
  equal(test.sql("SELECT state, owner, note FROM retry_causes WHERE queue = 'shipments'"), "working\talice\tdepot HAM is closed for stocktaking", "triage");
  await page.getByRole("button", { name: "Ignore", exact: true }).click();
  await page.locator("h1 .badge", { hasText: "ignored" }).waitFor();
  equal(test.sql("SELECT state FROM retry_causes WHERE queue = 'shipments'"), "ignored", "ignored");
}

/** The audit can be asked for each action that there is. */
async function auditedBy(test, page) {
  await page.goto("/console/audit?queue=shipments");
  const action = page.getByLabel(/^Action/);
  await action.waitFor();
  const { components } = await test.api("/openapi.json");
  const offered = await action.locator("option").evaluateAll(all => all.map(one => one.value));
  equal(offered, ["", ...components.schemas.AuditAction.enum], "the actions that the audit offers");
  for (const one of offered.slice(1)) {
    const answer = page.waitForResponse(response => response.url().includes(`action=${one}`));
    await action.selectOption(one);
    equal((await answer).status(), 200, `the audit of ${one}`);
  }
  await action.selectOption("pause");
  await page.waitForURL(/action=pause/);
  await page.locator("tbody tr", { hasText: "the depot is closed" }).first().waitFor();
}
