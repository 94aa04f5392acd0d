// Checks manifests against Kubernetes' types, and values against the chart's schema. The schemas are those of npm's
// kubernetes-models: its validators know patterns, enums and required keys; the TypeScript types find unknown keys.
//
// usage: node check.mjs manifests FILE.json...   each an array of manifests
//        node check.mjs values SCHEMA.json FILE.json
// Prints one line for each error. NODE_MODULES in the environment: where the packages are.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.NODE_MODULES;
const require = createRequire(path.join(modules, "check.cjs"));
const read = (file) => JSON.parse(fs.readFileSync(file, "utf8"));

function folderOf(apiVersion) {
  if (apiVersion.startsWith("monitoring.coreos.com/")) return `@kubernetes-models/prometheus-operator/${apiVersion}`;
  if (apiVersion.startsWith("keda.sh/")) return `@kubernetes-models/keda/${apiVersion}`;
  return `kubernetes-models/${apiVersion}`;
}

async function invalid({ manifest, name }) {
  const file = ["mjs", "js"]
    .map((end) => path.join(modules, folderOf(manifest.apiVersion), `${manifest.kind}.${end}`))
    .find(fs.existsSync);
  if (file === undefined) return `${name}: no such kind in ${manifest.apiVersion}`;
  try {
    new (await import(pathToFileURL(file)))[manifest.kind](manifest).validate();
  } catch (error) {
    return `${name}: ${error.message}`;
  }
}

// One program with all of them: the compiler reads the types once.
function mistyped(all) {
  const ts = require("typescript");
  const source = path.join(modules, "manifests.ts");
  const parts = all.map(({ manifest, name }, i) => {
    const type = `import type { I${manifest.kind} as T${i} } from "${folderOf(manifest.apiVersion)}/${manifest.kind}";`;
    return { name, text: `${type}\nexport const m${i}: T${i} = ${JSON.stringify(manifest, null, 1)};\n` };
  });
  const text = parts.map((part) => part.text).join("");
  const host = ts.createCompilerHost({});
  const { getSourceFile, fileExists } = host;
  host.fileExists = (file) => file === source || fileExists(file);
  host.getSourceFile = (file, ...rest) =>
    file === source ? ts.createSourceFile(file, text, ts.ScriptTarget.ES2022) : getSourceFile(file, ...rest);
  const options = { strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler };
  return ts.getPreEmitDiagnostics(ts.createProgram([source], options, host)).map((one) => {
    let at = one.start ?? 0;
    const part = parts.find(({ text }) => at < text.length || (at -= text.length, false)) ?? parts[0];
    return `${part.name}: ${ts.flattenDiagnosticMessageText(one.messageText, " ")}`;
  });
}

let errors = [];
if (process.argv[2] === "manifests") {
  const all = process.argv.slice(3).flatMap((file) => read(file).map((manifest) =>
    ({ manifest, name: `${path.basename(file, ".json")}: ${manifest.kind} ${manifest.metadata?.name}` })));
  errors = (await Promise.all(all.map(invalid))).filter(Boolean).concat(mistyped(all));
} else {
  const Ajv = require("ajv");
  const validate = new Ajv({ allErrors: true, strict: false }).compile(read(process.argv[3]));
  if (!validate(read(process.argv[4])))
    errors = validate.errors.map((e) => `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`);
}
for (const error of errors) console.log(error);
process.exit(errors.length > 0 ? 1 : 0);
