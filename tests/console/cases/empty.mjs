// Before anything has failed: each page says how there would be something.
import { is } from "../browser.mjs";

export async function run(test) {
  const page = await test.page();
  await page.goto("/");
  await page.getByText("No messages yet.").waitFor();
  is(await page.getByText("rung attach QUEUE").isVisible(), "the overview shows the attach command");
  if (test.world.screenshots) await page.screenshot({ path: `${test.world.screenshots}/empty-light.png` });
  for (const [path, title] of [
    ["/console/causes", "Nothing fails."],
    ["/console/tasks", "No task yet."],
    ["/console/bulks", "No bulk yet."],
  ]) {
    await page.goto(path);
    await page.getByText(title).waitFor();
  }
  await page.goto("/console/queues");
  await page.getByRole("link", { name: "orders" }).waitFor(); // attached, without a task
  await page.goto("/console/nothing/here");
  await page.getByRole("heading", { name: "No such page" }).waitFor();
  await page.goto("/console/tasks/123456789012345678");
  await page.getByRole("alert").getByText("no task").waitFor();
}
