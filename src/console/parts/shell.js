// What stands around each page: the way to the others, search, live updates, the zone of times, who you are.
import { useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { useAtom } from "../lib/atom.js";
import { helpOpen, PAGES } from "../lib/keys.js";
import { liveState, trouble } from "../lib/live.js";
import { useFigures } from "../lib/figures.js";
import { liveSwitch, zone } from "../lib/prefs.js";
import { navigate, to } from "../lib/router.js";
import { withQuery } from "../lib/api.js";
import { useSession } from "../lib/session.js";
import { count } from "../lib/format.js";
import { zoneName } from "../lib/time.js";
import { Help } from "./help.js";
import { Text } from "./text.js";
import { Toast } from "./toast.js";

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
  return html`<form
    role="search"
    class="search"
    onSubmit=${(/** @type {Event} */ e) => {
      e.preventDefault();
      find(text);
      setText("");
    }}
  >
    <input
      type="search"
      data-search
      aria-label="Search a task id, a cause or a message-id"
      placeholder="Task id, cause or message-id"
      value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)}
    />
    <kbd aria-hidden="true">/</kbd>
  </form>`;
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
    <i class="dot ${on ? tone : "gray"}"></i>${on ? word : "Live off"}
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
  const parked = useFigures().data?.totals?.parked ?? 0;
  const current = (/** @type {string} */ href) =>
    href === "/" ? path === "/" || path === "/console" : path === href || path.startsWith(href + "/");
  return html`<div class="shell">
    <a
      class="skip"
      href="#main"
      onClick=${(/** @type {Event} */ e) => {
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}
      >Skip to the page</a
    >
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
      <div class="top-right">
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
      ${noNews && html`<p class="warn">No news at the moment: <${Text} value=${noNews} /></p>`}${children}
    </main>
    ${help && html`<${Help} />`}
    <${Toast} />
  </div>`;
}
