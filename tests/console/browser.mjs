// The browser, the database and the API, as the cases use them.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const BOUND = 120_000;

export async function start(world) {
  const require = createRequire(world.modules + "/");
  const { chromium } = require("playwright-core");
  const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  const browser = await chromium.launch({
    executablePath: process.env.RUNG_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-background-networking"],
  });
  return new Test(world, browser, axe);
}

class Test {
  constructor(world, browser, axe) {
    Object.assign(this, { world, browser, axe, contexts: [], complaints: [] });
  }

  /** A page of a context of its own, with everything watched that must not happen. */
  async page(options = {}, url = this.world.open) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, baseURL: url, ...options });
    context.setDefaultTimeout(BOUND);
    this.contexts.push(context);
    const page = await context.newPage();
    page.on("pageerror", error => this.complaints.push(`error of JavaScript at ${page.url()}: ${error.message}`));
    page.on("console", message => {
      const text = message.text();
      // An answer with an error status is the API's, and the page shows it.
      if (message.type() === "error" && !text.startsWith("Failed to load resource")) this.complaints.push(`console at ${page.url()}: ${text}`);
    });
    page.on("request", request => {
      if (!request.url().startsWith(url + "/") && !/^(data|about|blob):/.test(request.url())) this.complaints.push(`a request to ${request.url()}`);
    });
    return page;
  }

  async signIn(role, options) {
    const page = await this.page(options, this.world.signedIn);
    await page.goto("/");
    await page.getByLabel("Token").fill(this.world.tokens[role]);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    return page;
  }

  sql(query) {
    return execFileSync(this.world.sql, ["-N", "-r", "-e", query, "rung"], { encoding: "utf8" }).trim();
  }

  shop(...words) {
    execFileSync(this.world.shop, words);
  }

  async api(path, body) {
    const answer = await fetch(this.world.open + path, {
      method: body ? "POST" : "GET",
      ...(body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** The first task that a filter finds. */
  async task(filter) {
    const { tasks } = await this.api(`/v1/tasks?limit=1&${new URLSearchParams(filter)}`);
    if (!tasks.length) throw new Error(`no task with ${JSON.stringify(filter)}`);
    return tasks[0];
  }

  async until(what, condition, most = BOUND) {
    const end = Date.now() + most;
    for (;;) {
      const found = await condition();
      if (found) return found;
      if (Date.now() > end) throw new Error(`not within ${most / 1000} s: ${what}`);
      await new Promise(done => setTimeout(done, 100));
    }
  }

  async sqlIs(what, query, wanted) {
    let last;
    await this.until(`${what}: ${query} gives ${wanted}; last ${last}`, () => (last = this.sql(query)) === String(wanted)).catch(error => {
      throw new Error(`${error.message} (it gives ${last})`);
    });
  }

  /** Serious and critical violations that axe finds; `options` as axe.run takes them. */
  async violations(page, options) {
    await page.evaluate(this.axe);
    const found = await page.evaluate(given => globalThis.axe.run(document, given), options);
    return found.violations
      .filter(one => one.impact === "serious" || one.impact === "critical")
      .map(one => `${one.id}: ${one.nodes.map(node => node.target.join(" ")).slice(0, 3).join("; ")} ${one.nodes[0].failureSummary.split("\n")[1] ?? ""}`);
  }

  async failed(name) {
    const page = this.contexts.at(-1)?.pages()[0];
    if (page && process.env.RUNG_CONSOLE_LOGS) await page.screenshot({ path: `${process.env.RUNG_CONSOLE_LOGS}/${name}.png`, fullPage: true });
  }

  async close() {
    for (const context of this.contexts.splice(0)) await context.close();
  }

  async end() {
    await this.close();
    await this.browser.close();
  }
}

export function equal(found, wanted, what) {
  const a = JSON.stringify(found);
  const b = JSON.stringify(wanted);
  if (a !== b) throw new Error(`${what}: ${a} instead of ${b}`);
}

export function is(condition, what) {
  if (!condition) throw new Error(`it is not so: ${what}`);
}
