// A message with markup, an escape sequence and characters that turn the direction of text: all of it is text.
import { equal, is } from "../browser.mjs";

export async function run(test) {
  test.shop("strange");
  await test.sqlIs("the message is here", "SELECT COUNT(*) FROM retry_current WHERE message_id = 'strange-1'", 1);
  const task = await test.task({ message_id: "strange-1" });
  const page = await test.page();
  const harmless = async path => {
    equal(await page.locator("main script, main img").count(), 0, `elements of the message at ${path}`);
    equal(await page.evaluate(() => globalThis.pwned), undefined, `code of the message at ${path}`);
  };
  for (const path of [`/console/tasks/${task.retry_id}`, `/console/causes/${task.cause_id}`, "/console/tasks?message_id=strange-1", "/console/causes?queue=mails", "/"]) {
    await page.goto(path);
    await page.locator("main").getByText(/<script>window/).first().waitFor();
    await harmless(path);
    const text = await page.locator("main").innerText();
    // eslint-disable-next-line no-control-regex
    is(!/[\u001b\u202e\u200b]/.test(text), `nothing unseen at ${path}`);
  }
  await page.goto(`/console/tasks/${task.retry_id}/edit`);
  is((await page.getByLabel(/^Body/).first().inputValue()).includes("<script>"), "the editor has the body");
  await harmless("the editor");
  await page.goto(`/console/tasks/${task.retry_id}`);
  const body = page.locator("pre.body");
  await body.waitFor();
  const shown = await body.innerText();
  is(shown.includes("␛[31mred") && shown.includes("U+202E") && shown.includes("U+200B"), `they are shown: ${shown}`);
  is((await page.locator(".unseen[title*='right-to-left override']").count()) > 0, "and named");
}
