// Each page, light, dark and narrow: axe finds nothing serious, nothing sticks out, and a picture is kept.
import { equal } from "../browser.mjs";

const STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
// The elements are the same each time: dark differs in colours, narrow in places.
const RULES = {
  light: { runOnly: STANDARDS },
  dark: { runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] } },
  narrow: { runOnly: { type: "rule", values: ["scrollable-region-focusable", "target-size", "nested-interactive"] } },
};

const LOOKS = {
  light: {},
  dark: { colorScheme: "dark" },
  narrow: { viewport: { width: 360, height: 740 } },
};

async function addresses(test) {
  const parked = await test.task({ queue: "orders", state: "parked" });
  const replaced = test.sql("SELECT retry_id FROM retry_current WHERE replaced_by IS NOT NULL LIMIT 1");
  const { causes } = await test.api("/v1/causes?with_tasks=true&limit=1");
  const { bulks } = await test.api("/v1/bulks?limit=100");
  const redrive = bulks.findLast(bulk => bulk.action === "redrive") ?? bulks[0];
  return {
    overview: "/",
    causes: "/console/causes",
    cause: `/console/causes/${causes[0].cause_id}`,
    redrive: `/console/act?action=redrive&queue=${causes[0].queue}&cause=${causes[0].cause_id}`,
    ...(redrive && { bulk: `/console/bulks/${redrive.id}` }),
    bulks: "/console/bulks",
    queues: "/console/queues",
    queue: "/console/queues/orders",
    tasks: "/console/tasks?queue=orders&limit=25",
    task: `/console/tasks/${replaced || parked.retry_id}`,
    edit: `/console/tasks/${parked.retry_id}/edit`,
    audit: "/console/audit",
    nodes: "/console/nodes",
    config: "/console/config",
    you: "/console/you",
  };
}

/** The whole page, but not a list of thousands of pixels; of a dialog what one sees. */
async function picture(test, page, name, kind) {
  const { width, height } = page.viewportSize();
  const whole = await page.evaluate(() => document.documentElement.scrollHeight);
  const most = name === "help" ? height : Math.max(height, Math.min(whole, kind === "narrow" ? 1500 : 1350));
  return { path: `${test.world.screenshots}/${name}-${kind}.png`, fullPage: true, clip: { x: 0, y: 0, width, height: most } };
}

export async function run(test) {
  const pages = await addresses(test);
  const wrong = [];
  let looked = 0;
  const look = async (page, name, kind) => {
    for (const one of await test.violations(page, RULES[kind])) wrong.push(`axe, ${name} ${kind}: ${one}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) wrong.push(`${name} ${kind} is ${wide} pixels too wide`);
    if (test.world.screenshots) await page.screenshot(await picture(test, page, name, kind));
    looked++;
  };
  for (const [kind, options] of Object.entries(LOOKS)) {
    const page = await test.page(options);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(path);
      await page.locator("main h1").waitFor();
      await page.locator(".loading").waitFor({ state: "detached" });
      await page.getByText("Live", { exact: true }).waitFor();
      await page.waitForTimeout(300); // pictures are drawn
      await look(page, name, kind);
    }
    const guest = await test.page(options, test.world.signedIn);
    await guest.goto("/");
    await guest.getByLabel("Token").waitFor();
    await look(guest, "sign-in", kind);
    await guest.close();
  }
  const help = await test.page();
  await help.goto("/");
  await help.getByRole("button", { name: "Help and keys" }).click();
  await help.getByRole("dialog").waitFor();
  await look(help, "help", "light");
  equal(wrong, [], "what is wrong with pages");
  return `${looked} looks`;
}
