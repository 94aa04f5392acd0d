// From the first look to a canary redrive that succeeds, in at most five clicks.
import { equal, is } from "../browser.mjs";

const MOST_CLICKS = 5;

export async function run(test) {
  const { failures } = test.world;
  test.shop("fail", String(failures));
  await test.until("all failures are stored", () => Number(test.sql("SELECT COUNT(*) FROM retry_current")) === failures, 120000);
  const page = await test.page();
  let clicks = 0;
  const click = async locator => {
    clicks++;
    await locator.click();
  };
  await page.goto("/");
  const rows = page.getByRole("table", { name: "Causes" }).locator("tbody tr");
  await rows.first().waitFor();
  equal(await rows.count(), 5, "causes at the first look");
  is((await rows.first().innerText()).includes("ServiceUnavailable"), "the largest cause comes first");
  equal(await page.locator(".side .pill").getAttribute("href"), "/console/tasks?state=parked", "where the badge of parked tasks leads");
  const cause = test.sql("SELECT cause_id FROM retry_causes WHERE error_type = 'ServiceUnavailable'");
  const parked = Number(test.sql(`SELECT parked FROM retry_causes WHERE cause_id = '${cause}'`));

  await click(rows.first().getByRole("link", { name: /^Redrive/ }));
  const number = parked.toLocaleString("en-US");
  // The count is there before anything moves, and stands on the button.
  await page.getByRole("button", { name: `Freeze ${number} tasks` }).waitFor();
  await click(page.getByRole("button", { name: `Freeze ${number} tasks` }));
  await page.getByText("Nothing has moved.").waitFor();
  await page.locator(".chips", { hasText: "ServiceUnavailable" }).waitFor();
  equal(test.sql("SELECT state, total, done, canary FROM retry_bulks"), `paused\t${parked}\t0\t10`, "the frozen set");
  if (test.world.screenshots) await page.screenshot({ path: `${test.world.screenshots}/frozen-light.png`, fullPage: true });
  await click(page.getByRole("button", { name: "Start with a canary of 10" }));
  await page.getByText("Its outcomes are awaited").waitFor();
  await page.locator(".stages .now, .stages .past", { hasText: "The others follow" }).waitFor();
  is(clicks <= MOST_CLICKS, `${clicks} clicks`);
  if (test.world.screenshots) await page.screenshot({ path: `${test.world.screenshots}/bulk-running-light.png`, fullPage: true });

  // It goes on when the page is closed.
  await page.close();
  const most = 60000 + parked * 20;
  await test.until("the bulk is done", () => test.sql("SELECT state FROM retry_bulks") === "done", most);
  await test.until("all have succeeded", () => Number(test.sql(`SELECT succeeded FROM retry_causes WHERE cause_id = '${cause}'`)) >= parked, most);
  return `${failures} failures, ${parked} redriven, ${clicks} clicks`;
}
