import { render } from "preact";
import { useEffect } from "preact/hooks";
import { refresh, useSession } from "./lib/api.js";
import { html } from "./lib/html.js";
import { startLive } from "./lib/live.js";
import { followLinks, match, navigate, useLocation } from "./lib/router.js";
import { Page, Problem } from "./parts/page.js";
import { Shell, startKeys } from "./parts/shell.js";
import { Audit } from "./pages/audit.js";
import { Bulk, Bulks } from "./pages/bulks.js";
import { Cause, Causes } from "./pages/causes.js";
import { EditTask } from "./pages/edit_task.js";
import { NewBulk } from "./pages/new_bulk.js";
import { Config, Nodes } from "./pages/nodes.js";
import { Overview } from "./pages/overview.js";
import { Queue, Queues } from "./pages/queues.js";
import { Task } from "./pages/task.js";
import { Tasks } from "./pages/tasks.js";
import { SIGN_IN, SignIn, You } from "./pages/you.js";

/** @type {[string, any][]} */
const ROUTES = [
  ["/", Overview],
  ["/console", Overview],
  ["/console/causes", Causes],
  ["/console/causes/:id", Cause],
  ["/console/act", NewBulk],
  ["/console/bulks", Bulks],
  ["/console/bulks/:id", Bulk],
  ["/console/queues", Queues],
  ["/console/queues/:name", Queue],
  ["/console/tasks", Tasks],
  ["/console/tasks/:id", Task],
  ["/console/tasks/:id/edit", EditTask],
  ["/console/audit", Audit],
  ["/console/nodes", Nodes],
  ["/console/config", Config],
  ["/console/you", You],
];

const NotFound = () =>
  html`<${Page} title="No such page">
    <p>This address is none of the console's. <a href="/">Overview</a></p>
  <//>`;

function App() {
  const who = useSession();
  const { path, query } = useLocation();
  useEffect(() => void refresh(), []);
  // Who has signed in there goes to the first page, and not back.
  const arrived = who.signed_in && path === SIGN_IN;
  useEffect(() => {
    if (arrived) navigate("/", { replace: true });
  }, [arrived]);
  if (who.loading || arrived) return null;
  if (who.error && !who.signed_in) {
    return html`<main class="alone">
      <h1>Rung</h1>
      <${Problem} error=${who.error} retry=${refresh} />
    </main>`;
  }
  if (!who.signed_in) return html`<${SignIn} />`;
  for (const [pattern, page] of ROUTES) {
    const params = match(pattern, path);
    // A page of another thing is another page: it keeps nothing of the one before.
    if (params) return html`<${Shell} path=${path}><${page} key=${path} params=${params} query=${query} /><//>`;
  }
  return html`<${Shell} path=${path}><${NotFound} /><//>`;
}

followLinks();
startKeys();
startLive();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
