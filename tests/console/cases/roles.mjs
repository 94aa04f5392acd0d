// What one may not do is disabled and says why; what the page does not offer the API refuses, too.
import { equal, is } from "../browser.mjs";

export async function run(test) {
  const parked = await test.task({ queue: "orders", state: "parked" });
  const reader = await test.signIn("reader");
  await reader.goto(`/console/tasks/${parked.retry_id}`);
  const redrive = reader.getByRole("button", { name: "Redrive", exact: true });
  await redrive.waitFor();
  equal(await redrive.getAttribute("aria-disabled"), "true", "a reader's redrive");
  is((await redrive.getAttribute("title")).includes("needs the role redriver"), "it says why");
  await redrive.click({ force: true });
  equal(await reader.getByRole("dialog").count(), 0, "dialogs after a disabled button");
  await reader.getByText("The message is not shown").waitFor();
  equal(await reader.locator("pre.body").count(), 0, "bodies that a reader sees");
  await reader.goto("/console/you");
  is((await reader.locator(".may li", { hasText: /redrive(?!r)/ }).innerText()).includes("no"), "You says no");

  const limited = await test.signIn("limited");
  await limited.goto(`/console/tasks/${parked.retry_id}`);
  const theirs = limited.getByRole("button", { name: "Redrive", exact: true });
  await limited.locator("button[title*='only on the queues mail[a-z]']").first().waitFor();
  is((await theirs.getAttribute("title")).includes("concerns the queue 'orders'"), "it names the queue");
  const own = await test.task({ queue: "mails", state: "parked" });
  await limited.goto(`/console/tasks/${own.retry_id}`);
  await limited.getByRole("button", { name: "Discard", exact: true }).click();
  await limited.getByRole("dialog").getByRole("button", { name: "Discard 1 task" }).click();
  await limited.getByRole("dialog").waitFor({ state: "hidden" });
  equal(test.sql(`SELECT state FROM retry_current WHERE retry_id = ${own.retry_id}`), "discarded", "with the cookie and the header of CSRF");
  is(test.sql(`SELECT who FROM retry_audit WHERE retry_id = ${own.retry_id} AND what = 'discard'`).startsWith("limited, "), "the audit has the name");

  const operator = await test.signIn("operator");
  await operator.goto(`/console/tasks/${parked.retry_id}`);
  await operator.getByText("The message is not shown").waitFor();
  equal(await operator.getByRole("button", { name: "Edit and retry" }).getAttribute("aria-disabled"), "true", "an operator's edit");

  const editor = await test.signIn("editor");
  await editor.goto(`/console/tasks/${parked.retry_id}`);
  await editor.locator("pre.body").waitFor();
  await editor.getByRole("link", { name: "Edit and retry" }).waitFor();
}
