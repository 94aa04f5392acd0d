// All of it without a mouse.
import { equal, is } from "../browser.mjs";

export async function run(test) {
  const page = await test.page();
  await page.goto("/console/tasks?queue=orders");
  await page.locator("tbody a.id").nth(2).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  const second = await page.locator("tbody a.id").nth(1).innerText();
  equal(await page.evaluate(() => document.activeElement?.textContent), second, "the row after j j j k");
  await page.keyboard.press("x");
  await page.getByText("1 task chosen").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: `Task ${second}` }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Help" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await page.keyboard.press("/");
  await page.keyboard.type(second);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/console/tasks/${second}`);
  await page.locator("body").click({ position: { x: 5, y: 700 } });
  await test.until("g c leads to the causes", async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("c");
    return new URL(page.url()).pathname === "/console/causes";
  });
  await page.getByRole("heading", { name: "Causes", level: 1 }).waitFor();
  // A dialog keeps the focus, and Escape closes it.
  await page.goto("/console/queues/orders");
  await page.getByRole("button", { name: "Pause…" }).press("Enter");
  await page.getByRole("dialog").waitFor();
  is(await page.evaluate(() => document.activeElement?.closest("dialog") !== null), "the focus is in the dialog");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  // Times: one switch for all of them.
  await page.getByRole("button", { name: "UTC", exact: true }).click();
  await page.getByRole("button", { name: /^UTC[+-]/ }).waitFor();
}
