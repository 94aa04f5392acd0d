import { html } from "../lib/html.js";
import { useData } from "../lib/data.js";
import { entries } from "../lib/config.js";
import { stringify } from "../lib/json.js";
import { Copy } from "../parts/copy.js";
import { delays, LadderTimeline } from "../parts/ladder.js";
import { Facts, Loading, Page, Section } from "../parts/page.js";
import { Problem } from "../parts/problem.js";
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
  const { data, error, loading, reload } = useData("/v1/config");
  return html`<${Page}
    title="Config"
    actions=${data && html`<${Copy} text=${stringify(data, 2)} label="Copy as JSON" />`}
  >
    <p class="lead">
      What this sidecar works by, without secrets. It is changed in its file, and read again at a reload.
    </p>
    <${Problem} error=${error} retry=${reload} />
    ${!data && loading && html`<${Loading} />`} ${data && html`<${Parts} data=${data} />`}
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
      <div class="ladders">
        ${entries(data.ladders).map(
          ([name, ladder]) =>
            html`<div class="card">
              <h3>
                <${Text} value=${name} />
                <small
                  >${delays(ladder).length}
                  levels${ladder.jitter ? `, each up to ${Math.round(ladder.jitter * 100)} % longer` : ""}</small
                >
              </h3>
              <${LadderTimeline} ladder=${ladder} />
            </div>`,
        )}
      </div>
    <//>
    <${Section} title="Queues">
      <div class="cards">
        ${entries(data.queues).map(([name, queue]) => html`<${QueueCard} key=${name} name=${name} queue=${queue} />`)}
        ${data.defaults && html`<${QueueCard} name="(any other)" queue=${data.defaults} />`}
      </div>
    <//>
    ${
      entries(data.rules).length > 0 &&
      html`<${Section} title="Rules">
        <div class="cards">
          ${entries(data.rules).map(
            ([name, list]) =>
              html`<article class="card">
                <h3><${Text} value=${name} /></h3>
                <${RuleList} rules=${list.rules} />
              </article>`,
          )}
        </div>
      <//>`
    }
    ${data.tags?.length > 0 && html`<${Section} title="Tags"><${Table} label="Tags" columns=${TAGS} rows=${data.tags} id=${(/** @type {any} */ tag) => tag.name} /><//>`}`;
}

/** @param {{ name: string, queue: any }} props */
const QueueCard = ({ name, queue }) =>
  html`<article class="card">
    <h3><${Text} value=${name} /></h3>
    <${Facts} rows=${rowsOf(queue)} />
  </article>`;
