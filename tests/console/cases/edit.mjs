// Edit and retry: the difference is shown first, numbers of 64 bits survive, and the new task is the edited one's child.
import { equal, is } from "../browser.mjs";

export async function run(test) {
  test.shop("large-id");
  await test.sqlIs("the message is here", "SELECT COUNT(*) FROM retry_current WHERE message_id = 'large-1'", 1);
  const { retry_id: id } = await test.task({ message_id: "large-1" });
  const page = await test.page();
  await page.goto(`/console/tasks/${id}`);
  const body = page.locator("pre.body");
  await body.waitFor();
  equal(await body.innerText(), '{\n  "id": 9223372036854775807,\n  "city": null,\n  "price": 80.0\n}', "the body as JSON");
  await page.getByRole("button", { name: "Headers 1" }).click();
  await page.getByText("9007199254740993").waitFor();
  await page.getByRole("button", { name: "Hex" }).click();
  is((await body.innerText()).startsWith("00000000  7b 22 69 64"), "the bytes");

  await page.getByRole("link", { name: "Edit and retry" }).click();
  const text = page.getByLabel(/^Body/).first();
  // The server says what is wrong, and where.
  await text.fill('{"id": 9223372036854775807,\n "city": }');
  await page.getByRole("button", { name: "Show the difference" }).click();
  await page.getByRole("button", { name: "Send 1 edited message" }).click();
  await page.getByRole("alert").getByText("line 2, column 10: not JSON").first().waitFor();
  await page.getByRole("button", { name: "Back to the message" }).click();
  await text.fill('{"id": 9223372036854775807, "city": "Ulm", "price": 80.0}');
  await page.getByRole("button", { name: "Add a header" }).click();
  await page.getByLabel("Name of header 2").fill("mended");
  await page.getByLabel("Value of header 2").fill("true");
  await page.getByRole("button", { name: "Show the difference" }).click();
  is((await page.locator(".diff .new").first().innerText()).includes('"Ulm"'), "the difference of the body");
  equal(test.sql(`SELECT state, replaced_by FROM retry_current WHERE retry_id = ${id}`), "parked\tNULL", "before it is sent");
  await page.getByLabel(/^Reason/).fill("the city was missing");
  await page.getByRole("button", { name: "Send 1 edited message" }).click();
  await page.waitForURL(url => url.pathname.startsWith("/console/tasks/") && !url.pathname.includes(id));
  const child = page.url().split("/").pop();
  equal(test.sql(`SELECT replaced_by FROM retry_current WHERE retry_id = ${id}`), child, "replaced by");
  equal(test.sql(`SELECT parent_id FROM retry_current WHERE retry_id = ${child}`), id, "the parent");
  const message = await (await fetch(`${test.world.open}/v1/tasks/${child}/message`)).text();
  is(/"customer":\s*9007199254740993\b/.test(message) && /"mended":\s*true/.test(message), `its headers: ${message}`);
  is(Buffer.from(JSON.parse(message).body_base64, "base64").toString().includes('"id": 9223372036854775807, "city": "Ulm", "price": 80.0'), "its body");
  await lineEnds(test);
  // The life shows both ends of the branch.
  await page.locator(".life .branch", { hasText: id }).waitFor();
  await page.goto(`/console/tasks/${id}`);
  // What an edited copy has replaced waits for nobody.
  await page.locator("h1 .badge.gray", { hasText: "replaced by an edited copy" }).waitFor();
  equal(await page.locator("button.primary").count(), 0, "blue buttons of a replaced task");
  await page.locator(".life .branch.out", { hasText: child }).waitFor();
  await page.locator(".life .hand", { hasText: "the city was missing" }).waitFor();
}

/** A text field has LF alone: CRLF comes back, and a mixture is not touched. */
async function lineEnds(test) {
  const parked = async (name, body) => {
    const id = `${name}-${process.pid}`;
    test.shop("body", id, body);
    await test.sqlIs("the message is here", `SELECT COUNT(*) FROM retry_current WHERE message_id = '${id}' AND state = 'parked'`, 1);
    return (await test.task({ message_id: id })).retry_id;
  };
  const page = await test.page();
  const id = await parked("crlf", "Dear Ann,\r\nyour order is on its way.\r\n");
  await page.goto(`/console/tasks/${id}/edit`);
  const text = page.locator("textarea.code");
  equal(await text.inputValue(), "Dear Ann,\nyour order is on its way.\n", "what the text field has");
  await page.getByText("Nothing is changed yet.").waitFor();
  await text.fill("Dear Ann,\nyour order is here.\n");
  await page.getByRole("button", { name: "Show the difference" }).click();
  await page.locator(".diff .new").first().waitFor();
  equal(await page.locator(".diff .new").count(), 1, "lines that differ");
  await page.getByRole("button", { name: "Send 1 edited message" }).click();
  await page.waitForURL(url => url.pathname.startsWith("/console/tasks/") && !url.pathname.includes(id));
  const child = page.url().split("/").pop();
  const message = await test.api(`/v1/tasks/${child}/message`);
  equal(Buffer.from(message.body_base64, "base64").toString(), "Dear Ann,\r\nyour order is here.\r\n", "the body that was sent");

  await page.goto(`/console/tasks/${await parked("mixed", "one\r\ntwo\nthree")}/edit`);
  await page.getByText("The body has line ends of several kinds").waitFor();
  equal(await text.count(), 0, "text fields for a mixture");
  await page.getByLabel("Body from a file…").setInputFiles({ name: "mended.txt", mimeType: "text/plain", buffer: Buffer.from("one\r\ntwo\r\n") });
  await page.getByRole("button", { name: "Show the difference" }).click();
  await page.getByText("Body: replaced by mended.txt").waitFor();
}
