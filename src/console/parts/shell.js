// Keys: / searches, j and k go through a list, g and a letter go to a page, ? explains.
import { useState } from "preact/hooks";
import { useSession, withQuery } from "../lib/api.js";
import { atom, liveSwitch, useAtom, zone } from "../lib/atom.js";
import { Figures, useFigures } from "../lib/figures.js";
import { count, zoneName } from "../lib/format.js";
import { html } from "../lib/html.js";
import { liveState, trouble } from "../lib/live.js";
import { navigate, to } from "../lib/router.js";
import { Dialog, Form, Toast } from "./form.js";
import { Facts } from "./page.js";
import { Text } from "./text.js";

const helpOpen = atom(false);

const PAGES = /** @type {[string, string, string][]} */ ([
  ["o", "Overview", "/"],
  ["c", "Causes", "/console/causes"],
  ["q", "Queues", "/console/queues"],
  ["t", "Tasks", "/console/tasks"],
  ["b", "Bulks", "/console/bulks"],
  ["a", "Audit", "/console/audit"],
  ["n", "Nodes", "/console/nodes"],
  ["s", "Config", "/console/config"],
  ["y", "You", "/console/you"],
]);

/** @param {number} by */
function step(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main [data-row]")]);
  if (!rows.length) return;
  const at = rows.findIndex(row => row === document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

let pending = 0;

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.target;
  if (target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() < pending) {
    pending = 0;
    const page = PAGES.find(([key]) => key === event.key);
    if (page) {
      event.preventDefault();
      navigate(page[2]);
      return;
    }
  }
  if (event.key === "/") {
    const box = document.querySelector("[data-search]");
    if (box instanceof HTMLElement) {
      event.preventDefault();
      box.focus();
    }
  } else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "g") pending = Date.now() + 1200;
  else if (event.key === "x" && document.activeElement instanceof HTMLElement) {
    const box = document.activeElement.closest("tr")?.querySelector("input[type=checkbox]");
    if (box instanceof HTMLElement) box.click();
  } else if (event.key === "?") helpOpen.set(true);
}

export function startKeys() {
  addEventListener("keydown", onKey);
}

const KEYS = [
  ["/", "search"],
  ["j k", "next or previous row"],
  ["Enter", "open the row"],
  ["x", "choose the row"],
  ["Esc", "leave a field, close a dialog"],
  ["?", "this help"],
  ...PAGES.map(([key, name]) => [`g ${key}`, name]),
];

const WORDS = [
  ["Task", "a message that Rung sends again, with its whole history"],
  ["Ladder", "the delays before each retry"],
  ["Parked", "out of retries; waits for a person"],
  ["Cause", "failures of a queue with the same error"],
  ["Redrive", "send parked tasks again, now"],
  ["Canary", "the first few of a redrive; the others follow only if all of these succeed"],
  ["Gate", "what holds a queue back: a pause, a window, a breaker, a rate"],
];

const Help = () =>
  html`<${Dialog} title="Help" onClose=${() => helpOpen.set(false)}>
    <div class="grid help">
      <section>
        <h3>Keys</h3>
        <${Facts} rows=${KEYS.map(([keys, what]) => [keys.split(" ").map(key => html`<kbd>${key}</kbd> `), what])} />
      </section>
      <section>
        <h3>Words</h3>
        <${Facts} rows=${WORDS} />
      </section>
    </div>
  <//>`;

// What stands around each page: the way to the others, search, live updates, the zone of times, who you are.

/** Where a search leads: a task's id, a cause's, or tasks with that message-id. @param {string} text */
function find(text) {
  const value = text.trim();
  if (!value) return;
  if (/^\d{15,20}$/.test(value)) navigate(to("tasks", value));
  else if (/^[0-9a-f]{12}$/.test(value)) navigate(to("causes", value));
  else navigate(withQuery("/console/tasks", { message_id: value }));
}

function Search() {
  const [text, setText] = useState("");
  return html`<${Form} role="search" class="search" onSubmit=${() => (find(text), setText(""))}>
    <input
      type="search"
      data-search
      aria-label="Search a task id, a cause or a message-id"
      placeholder="Task id, cause or message-id (key: /)"
      value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)}
    />
  <//>`;
}

const LIVE = /** @type {Record<string, [string, string]>} */ ({
  live: ["green", "Live"],
  connecting: ["amber", "Connecting"],
  lost: ["red", "Connection lost"],
  hidden: ["gray", "Paused"],
  off: ["gray", "Live off"],
});

function LiveSwitch() {
  const state = useAtom(liveState);
  const on = useAtom(liveSwitch) === "on";
  const [tone, word] = LIVE[state] ?? LIVE.off;
  return html`<button
    type="button"
    role="switch"
    aria-checked=${on ? "true" : "false"}
    class="quiet"
    title=${on ? "Stop all live updates" : "Start live updates"}
    onClick=${() => liveSwitch.set(on ? "off" : "on")}
  >
    <i class="dot ${tone}"></i>${word}
  </button>`;
}

function ZoneSwitch() {
  const now = useAtom(zone);
  return html`<button
    type="button"
    class="quiet"
    title="Times are shown in ${zoneName()}; switch to ${now === "utc" ? "local time" : "UTC"}"
    onClick=${() => zone.set(now === "utc" ? "local" : "utc")}
  >
    ${zoneName()}
  </button>`;
}

/** @param {{ path: string, children?: any }} props */
export function Shell({ path, children }) {
  const who = useSession();
  const help = useAtom(helpOpen);
  const noNews = useAtom(trouble);
  const figures = useFigures();
  const parked = figures.data?.totals.parked ?? 0;
  const current = (/** @type {string} */ href) =>
    href === "/" ? path === "/" || path === "/console" : path === href || path.startsWith(href + "/");
  return html`<div class="shell">
    <a class="skip" href="#main">Skip to the page</a>
    <nav class="side" aria-label="Console">
      <div class="side-in">
        <a class="row brand" href="/"><img src="/favicon.svg" alt="" width="22" height="22" /> Rung</a>
        <ul>
          ${PAGES.map(
            ([, name, href]) =>
              html`<li class="row">
                <a href=${href} aria-current=${current(href) ? "page" : undefined}>${name}</a
                >${name === "Tasks" && parked > 0 && html`<a class="pill" href="/console/tasks?state=parked" title="parked tasks">${count(parked)}</a>`}
              </li>`,
          )}
        </ul>
        ${
          who.peers?.length > 0 &&
          html`<div class="peers">
            <h2>Other groups</h2>
            <ul>
              ${who.peers.map(peer => html`<li><a href=${/^https?:/.test(peer.url) ? peer.url : "#"} rel="noreferrer">${peer.name} ↗</a></li>`)}
            </ul>
          </div>`
        }
      </div>
    </nav>
    <header class="top row between">
      <${Search} />
      <div class="row top-right">
        <${LiveSwitch} />
        <${ZoneSwitch} />
        <button
          type="button"
          class="quiet"
          aria-label="Help and keys"
          title="Help and keys (?)"
          onClick=${() => helpOpen.set(true)}
        >
          ?
        </button>
        <a class="who" href="/console/you" title="What you may do"
          >${who.way === "open" ? "no sign-in" : who.name} <small>${who.role}</small></a
        >
      </div>
    </header>
    <main id="main" tabindex="-1">
      ${noNews && html`<p class="warn">No news at the moment: <${Text} value=${noNews} /></p>`}
      <${Figures.Provider} value=${figures}>${children}<//>
    </main>
    ${help && html`<${Help} />`}
    <${Toast} />
  </div>`;
}
