// Runs the cases in one browser, one after the other, and says what each found.
import { readFileSync, mkdirSync } from "node:fs";
import { spawn } from "node:child_process";
import { start } from "./browser.mjs";

const CASES = ["empty", "sign_in", "bad_day", "live", "actions", "selection", "queues", "edit", "stranger", "roles", "keyboard", "pages"];
const world = JSON.parse(readFileSync(process.argv[2], "utf8"));
if (world.screenshots) mkdirSync(world.screenshots, { recursive: true });
const chosen = world.cases.length ? world.cases : CASES;
const unknown = chosen.filter(name => !CASES.includes(name));
if (unknown.length) {
  console.log(`console: no case ${unknown.join(", ")}; there are ${CASES.join(", ")}`);
  process.exit(1);
}

const consumers = spawn(world.shop, ["consume", "900"], { stdio: "ignore" });
const test = await start(world);
let failed = 0;
for (const name of chosen) {
  const began = Date.now();
  try {
    const { run } = await import(`./cases/${name}.mjs`);
    const said = await run(test);
    await test.close();
    console.log(`console: ok     ${name}, ${((Date.now() - began) / 1000).toFixed(1)} s${said ? `: ${said}` : ""}`);
  } catch (error) {
    failed++;
    console.log(`console: FAILED ${name}: ${error.stack ?? error}`);
    await test.failed(name).catch(() => {});
    await test.close();
  }
}
for (const complaint of test.complaints) console.log(`console: FAILED ${complaint}`);
console.log(`console: ${chosen.length - failed} of ${chosen.length} cases, ${test.complaints.length} errors of JavaScript or requests to strangers`);
await test.end();
consumers.kill();
process.exit(failed || test.complaints.length ? 1 : 0);
