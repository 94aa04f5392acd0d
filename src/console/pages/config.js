import { html } from "../lib/html.js";
import { useData } from "../lib/data.js";
import { entries } from "../lib/config.js";
import { stringify } from "../lib/json.js";
import { Copy } from "../parts/copy.js";
import { delays, LadderTimeline } from "../parts/ladder.js";
import { Facts, Loading, Page, Section } from "../parts/page.js";
import { Problem } from "../parts/problem.js";
import { nameOf, said } from "../parts/rules.js";
import { Text } from "../parts/text.js";

export function Config() {
  const { data, error, loading, reload } = useData("/v1/config");
  const ladders = entries(data?.ladders);
  const queues = entries(data?.queues);
  const rest =
    data &&
    Object.entries(data).filter(
      ([name]) => name !== "ladders" && name !== "queues" && name !== "version" && name !== "fingerprint",
    );
  return html`<${Page} title="Config">
    <p class="lead">
      What this sidecar works by, without secrets. It is changed in its file, and read again at a reload.
    </p>
    <${Problem} error=${error} retry=${reload} />
    ${!data && loading && html`<${Loading} />`}
    ${
      data &&
      html`<${Facts}
          rows=${[
            ["Version", data.version],
            ["Fingerprint", data.fingerprint && html`<code>${data.fingerprint}</code>`],
          ]}
        />
        <${Section} title="Ladders">
          <div class="ladders">
            ${ladders.map(
              ([name, ladder]) =>
                html`<div class="card">
                  <h3><${Text} value=${name} /> <small class="faint">${delays(ladder).length} levels</small></h3>
                  <${LadderTimeline} ladder=${ladder} />
                </div>`,
            )}
          </div>
        <//>
        <${Section} title="Queues">
          <div class="cards">
            ${queues.map(
              ([name, queue]) =>
                html`<article class="card">
                  <h3><${Text} value=${name} /></h3>
                  <${Facts}
                    rows=${Object.entries(queue ?? {})
                      .filter(([key]) => key !== "name" && key !== "queue")
                      .map(([key, value]) => [nameOf(key), said(key, value)])}
                  />
                </article>`,
            )}
          </div>
          ${!queues.length && html`<p class="faint">No queue has settings of its own.</p>`}
        <//>
        ${
          rest.length > 0 &&
          html`<${Section}
            title="All the rest"
            actions=${html`<${Copy} text=${stringify(data, 2)} label="Copy as JSON" />`}
          >
            <pre class="sample" tabindex="0"><${Text} value=${stringify(Object.fromEntries(rest), 2)} lines /></pre>
          <//>`
        }`
    }
  <//>`;
}
