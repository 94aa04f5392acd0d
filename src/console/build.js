// Writes index.html, app.js, app.css and favicon.svg, the whole console, into the folder that --outdir names.
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({ options: { outdir: { type: "string" } } });
if (!values.outdir) {
  console.error("usage: npm run build -- --outdir DIR");
  process.exit(1);
}
mkdirSync(values.outdir, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "app.js" },
  outdir: values.outdir,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await build({
  absWorkingDir: here,
  entryPoints: { app: "style/app.css" },
  outdir: values.outdir,
  bundle: true,
  minify: true,
  target: ["chrome123", "firefox120", "safari17.5"],
  logLevel: "warning",
});
for (const name of ["index.html", "favicon.svg"]) copyFileSync(join(here, name), join(values.outdir, name));
