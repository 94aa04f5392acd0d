import { html } from "../lib/html.js";
import { useData } from "../lib/data.js";
import { stringify } from "../lib/json.js";
import { Copy } from "../parts/copy.js";
import { LadderPicture } from "../parts/ladder.js";
import { Facts, Page, Section } from "../parts/page.js";
import { rowsOf, RuleList } from "../parts/rules.js";
import { Table } from "../parts/table.js";
import { Text } from "../parts/text.js";

/** @type {import("../parts/table.js").Column[]} */
const TAGS = [
  { label: "Tag", cell: tag => html`<${Text} value=${tag.name} />` },
  { label: "Queue", cell: tag => html`<${Text} value=${tag.queue} />` },
  { label: "Ladder", cell: tag => html`<${Text} value=${tag.ladder} />` },
];

export function Config() {
  const loaded = useData("/v1/config");
  const { data } = loaded;
  return html`<${Page}
    title="Config"
    of=${loaded}
    actions=${data && html`<${Copy} text=${stringify(data, 2)} label="Copy as JSON" />`}
  >
    <p class="lead">
      What this sidecar works by, without secrets. It is changed in its file, and read again at a reload.
    </p>
    ${data && html`<${Parts} data=${data} />`}
  <//>`;
}

/** @param {{ data: any }} props */
function Parts({ data }) {
  return html`<${Facts}
      rows=${[
        ["Version", data.version],
        ["Fingerprint", data.fingerprint && html`<code>${data.fingerprint}</code>`],
        ["Error queues", data.error_queues?.length > 0 && html`<${Text} value=${data.error_queues.join(", ")} />`],
      ]}
    />
    <${Section} title="Ladders">
      <div class="grid cards">
        ${data.ladders.map(
          (/** @type {any} */ ladder) =>
            html`<div class="card">
              <h3>
                <${Text} value=${ladder.name} />
                <small
                  >${ladder.delays_ms.length}
                  levels${ladder.jitter ? `, each up to ${Math.round(ladder.jitter * 100)} % longer` : ""}</small
                >
              </h3>
              <${LadderPicture} ladder=${ladder} />
            </div>`,
        )}
      </div>
    <//>
    <${Section} title="Queues">
      <div class="grid cards">
        ${[...data.queues, { ...data.defaults, name: "(any other)" }].map(
          queue =>
            html`<article class="card">
              <h3><${Text} value=${queue.name} /></h3>
              <${Facts} rows=${rowsOf(queue)} />
            </article>`,
        )}
      </div>
    <//>
    ${
      data.rules.length > 0 &&
      html`<${Section} title="Rules">
        <div class="grid cards">
          ${data.rules.map(
            (/** @type {any} */ list) =>
              html`<article class="card">
                <h3><${Text} value=${list.name} /></h3>
                <${RuleList} rules=${list.rules} />
              </article>`,
          )}
        </div>
      <//>`
    }
    ${data.tags?.length > 0 && html`<${Section} title="Tags"><${Table} label="Tags" columns=${TAGS} rows=${data.tags} id=${(/** @type {any} */ tag) => tag.name} /><//>`}`;
}
