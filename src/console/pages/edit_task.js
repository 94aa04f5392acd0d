// Edit and retry: the message as it is, what is changed, and the difference before it is sent.
import { useState } from "preact/hooks";
import { get, post, refusal } from "../lib/api.js";
import { fromBase64, lineEnds, size, toBase64, utf8, withEnds, withLf } from "../lib/bytes.js";
import { html } from "../lib/html.js";
import { parse, pretty, stringify } from "../lib/json.js";
import { useData, useSend } from "../lib/live.js";
import { navigate, to } from "../lib/router.js";
import { Diff } from "../parts/diff.js";
import { Field, say } from "../parts/form.js";
import { Page, Problem } from "../parts/page.js";
import { Held } from "../parts/queues.js";

/** @param {string} id @param {{ signal: AbortSignal }} options */
async function readBoth(id, options) {
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  const [task, message] = await Promise.all([get(path, options), get(`${path}/message`, options)]);
  return { task, message };
}

/** @param {{ params: { id: string } }} props */
export function EditTask({ params }) {
  const loaded = useData(params.id, { read: readBoth });
  const { data, reload } = loaded;
  const up = /** @type {[string, string]} */ (["Task", to("tasks", params.id)]);
  if (!data) return html`<${Page} title="Edit and retry" up=${up} of=${loaded} />`;
  // It is made anew only for another version: what somebody types is not lost to a new reading.
  return html`<${Editor} key=${data.message.version} ...${data} up=${up} reload=${reload} />`;
}

/** @param {{ task: any, message: any, up: [string, string], reload: () => void }} props */
function Editor({ task, message, up, reload }) {
  const original = fromBase64(message.body_base64);
  const decoded = utf8(original);
  const ends = lineEnds(decoded ?? "");
  // What the text field begins with; null: it cannot hold the body as it is.
  const text = decoded === null || ends === "mixed" ? null : withLf(decoded);
  const [body, setBody] = useState(text ?? "");
  const [file, setFile] = useState(/** @type {{ name: string, bytes: Uint8Array } | null} */ (null));
  const [rows, setRows] = useState(rowsFrom(message.headers ?? {}));
  const [reason, setReason] = useState("");
  const [looking, setLooking] = useState(false);
  const { busy, error, send } = useSend();

  const json = /json/i.test(message.properties?.content_type ?? "");
  const changes = changedHeaders(message.headers ?? {}, rows);
  const bodyChanged = file !== null || (text !== null && body !== text);
  const why =
    refusal("edit", task.queue) ||
    (task.state !== "parked" ? `Only a parked task can be edited: it is ${task.state}.` : "") ||
    changes.wrong ||
    (!bodyChanged && !changes.any ? "Nothing is changed yet." : "");

  const sendEdited = async () => {
    const request = {
      version: message.version,
      ...(file
        ? { body_base64: toBase64(file.bytes) }
        : bodyChanged && { body_base64: toBase64(new TextEncoder().encode(withEnds(body, ends))) }),
      ...(Object.keys(changes.set).length && { set_headers: changes.set }),
      ...(changes.unset.length && { unset_headers: changes.unset }),
      ...(reason.trim() && { reason: reason.trim() }),
    };
    const created = await post(`/v1/tasks/${task.retry_id}/edit`, request);
    say("The edited message is sent as a new task.");
    navigate(to("tasks", created.retry_id));
  };

  return html`<${Page} title="Edit and retry" name="Edit task ${task.retry_id}" up=${up}>
    <p class="lead">
      A new task with the edited message goes out in place of <span class="id">${task.retry_id}</span>, which stays as
      it is.
    </p>
    <${Held} queue=${task.queue} />
    <${Problem} error=${error} retry=${error?.code === "version_conflict" ? reload : undefined} />
    ${
      looking
        ? html`<div class="stack">
            <h2>What differs</h2>
            ${
              file
                ? html`<p>
                    Body: replaced by <b>${file.name}</b>, ${size(file.bytes.length)}; it was ${size(original.length)}
                  </p>`
                : html`<${Diff} label="Body" before=${text ?? ""} after=${body} />`
            }
            <${Diff}
              label="Headers"
              before=${stringify(message.headers ?? {}, 2)}
              after=${stringify(changes.result, 2)}
            />
            <${Field} label="Reason" hint="for the audit" value=${reason} onInput=${setReason} autofocus />
            <div class="row">
              <button type="button" onClick=${() => setLooking(false)}>Back to the message</button>
              <button type="button" class="primary" disabled=${busy} onClick=${() => send(sendEdited)}>
                ${busy ? "Sending…" : "Send 1 edited message"}
              </button>
            </div>
          </div>`
        : html`<div class="stack">
            ${
              text === null
                ? html`<p class="warn">
                    ${
                      decoded === null
                        ? "The body is not text"
                        : "The body has line ends of several kinds, which a text field would make one"
                    }
                    (${size(original.length)}): it can only be replaced by a file.
                  </p>`
                : html`<${Field}
                    label="Body"
                    hint=${message.properties?.content_type}
                    class="code"
                    rows=${Math.min(24, Math.max(8, body.split("\n").length + 1))}
                    value=${body}
                    onInput=${setBody}
                  />`
            }
            <div class="row">
              ${json && text !== null && html`<button type="button" class="small" onClick=${() => setBody(pretty(body) ?? body)}>Format JSON</button>`}
              ${text !== null && html`<button type="button" class="small" disabled=${!bodyChanged} onClick=${() => (setBody(text), setFile(null))}>Undo</button>`}
              <label class="button small"
                >Body from a file…<input
                  class="sr"
                  type="file"
                  onChange=${async (/** @type {any} */ e) => {
                    const chosen = e.target.files?.[0];
                    setFile(chosen ? { name: chosen.name, bytes: new Uint8Array(await chosen.arrayBuffer()) } : null);
                  }}
              /></label>
              ${file && html`<span>${file.name}, ${size(file.bytes.length)}</span>`}
            </div>
            <${HeaderEditor} rows=${rows} setRows=${setRows} />
            <div class="row">
              <button type="button" class="primary" disabled=${!!why} onClick=${() => setLooking(true)}>
                Show the difference
              </button>
              ${why && html`<span class="faint">${why}</span>`}
            </div>
          </div>`
    }
  <//>`;
}

/** @param {any} before @param {{ name: string, value: string }[]} rows */
function changedHeaders(before, rows) {
  /** @type {Record<string, any>} */
  const set = {};
  /** @type {Record<string, any>} */
  const result = {};
  let wrong = "";
  for (const { name, value } of rows) {
    if (!name.trim()) {
      if (value.trim() && !wrong) wrong = "A header has no name.";
      continue;
    }
    let parsed;
    try {
      parsed = parse(value);
    } catch {
      wrong ||= `Header ${name}: the value is not JSON; text stands in quotes.`;
      continue;
    }
    if (name in result) wrong ||= `Header ${name} is there twice.`;
    result[name] = parsed;
    if (!(name in before) || stringify(before[name]) !== stringify(parsed)) set[name] = parsed;
  }
  const unset = Object.keys(before).filter(name => !(name in result) && !rows.some(row => row.name === name));
  return { set, unset, result, wrong, any: Object.keys(set).length + unset.length > 0 };
}

/** @param {Record<string, any>} headers */
const rowsFrom = headers => Object.entries(headers).map(([name, value]) => ({ name, value: stringify(value) }));

/** Names, and values as JSON: so a number stays a number. @param {{ rows: { name: string, value: string }[], setRows: (rows: { name: string, value: string }[]) => void }} props */
function HeaderEditor({ rows, setRows }) {
  const set = (/** @type {number} */ i, /** @type {any} */ change) =>
    setRows(rows.map((row, j) => (i === j ? { ...row, ...change } : row)));
  return html`<fieldset class="card stack">
    <legend>Headers <small>values as JSON: "text", 5, true</small></legend>
    ${rows.map(
      (row, i) =>
        html`<div class="header-row">
          <input
            aria-label="Name of header ${i + 1}"
            value=${row.name}
            spellcheck=${false}
            onInput=${(/** @type {any} */ e) => set(i, { name: e.target.value })}
          />
          <input
            aria-label="Value of header ${i + 1}"
            class="code"
            value=${row.value}
            spellcheck=${false}
            onInput=${(/** @type {any} */ e) => set(i, { value: e.target.value })}
          />
          <button
            type="button"
            class="small quiet"
            aria-label="Remove header ${row.name}"
            onClick=${() => setRows(rows.filter((_, j) => j !== i))}
          >
            ✕
          </button>
        </div>`,
    )}
    <div class="row">
      <button type="button" class="small" onClick=${() => setRows([...rows, { name: "", value: '""' }])}>
        Add a header
      </button>
    </div>
  </fieldset>`;
}
