// Each action on one task, and its effect in the database.
import { equal } from "../browser.mjs";

const state = (test, id) => test.sql(`SELECT state FROM retry_current WHERE retry_id = ${id}`);

export async function run(test) {
  const page = await test.page();
  const submit = async (more = {}) => (await test.api("/v1/tasks", { queue: "mails", delay: "3h", body: { order: 7 }, ...more })).retry_id;
  const open = id => page.goto(`/console/tasks/${id}`);
  const act = async (name, fill) => {
    await page.getByRole("button", { name, exact: true }).click();
    const dialog = page.getByRole("dialog");
    if (fill) await fill(dialog);
    await dialog.getByLabel(/^Reason/).fill(`because of ${name}`);
    await dialog.getByRole("button", { name: /1 task$/ }).click();
    await dialog.waitFor({ state: "hidden" });
  };
  const audited = (id, what) => test.sql(`SELECT reason FROM retry_audit WHERE retry_id = ${id} AND what = '${what}' ORDER BY audit_id DESC LIMIT 1`);

  let id = await submit();
  await open(id);
  await act("Reschedule", dialog => dialog.getByLabel("In").fill("5h"));
  equal(audited(id, "reschedule"), "because of Reschedule", "the audit of a reschedule");
  equal(test.sql(`SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(3), next_due_at) BETWEEN 297 AND 300 FROM retry_current WHERE retry_id = ${id}`), "1", "due in 5 hours");
  await page.locator(".life .now", { hasText: /in [45]h/ }).waitFor(); // the page has the new version
  await act("Fire now");
  await test.sqlIs("fired", `SELECT state FROM retry_current WHERE retry_id = ${id}`, "succeeded");
  // Seen without a reload.
  await page.locator("h1 .badge", { hasText: "succeeded" }).waitFor();

  id = await submit();
  await open(id);
  await act("Cancel");
  equal([state(test, id), audited(id, "cancel")], ["cancelled", "because of Cancel"], "a cancel");

  id = (await test.task({ queue: "mails", state: "parked" })).retry_id;
  await open(id);
  await act("Discard");
  equal([state(test, id), audited(id, "discard")], ["discarded", "because of Discard"], "a discard");

  id = (await test.task({ queue: "mails", state: "parked" })).retry_id;
  await open(id);
  await act("Report a result");
  equal(state(test, id), "succeeded", "a reported success");

  id = (await test.task({ queue: "mails", state: "parked" })).retry_id;
  await open(id);
  await act("Redrive");
  await test.sqlIs("redriven", `SELECT state FROM retry_current WHERE retry_id = ${id}`, "succeeded");

  id = (await test.task({ queue: "mails", state: "parked" })).retry_id;
  await open(id);
  await page.getByRole("button", { name: "Redrive", exact: true }).click();
  await page.getByRole("dialog").getByLabel("To another queue").fill("invoices");
  await page.getByRole("dialog").getByRole("button", { name: "Redrive elsewhere 1 task" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await test.sqlIs("redriven elsewhere", `SELECT queue, state FROM retry_current WHERE retry_id = ${id}`, "invoices\tsucceeded");

  // What somebody else did meanwhile is not overwritten, and the answer says so.
  id = await submit();
  await open(id);
  await page.getByRole("button", { name: "Cancel", exact: true }).waitFor();
  await page.getByRole("switch").click();
  await page.waitForLoadState("networkidle"); // no reading is under way
  await test.api(`/v1/tasks/${id}/reschedule`, { delay: "7h" });
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel 1 task" }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("version_conflict").waitFor();
  equal(state(test, id), "scheduled", "after a conflict");
}
