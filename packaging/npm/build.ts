import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import type { Plugin } from "rolldown";

/*
 * Makes `dist`, which an installed package runs: a bundle of the program and its libraries, since Node strips no types below
 * `node_modules`, and takes longer to find a thousand modules than to run them. Libraries with native code stay where npm
 * installs them. `npm pack` runs this.
 */
const root = fileURLToPath(new URL("../../", import.meta.url));
const dist = join(root, "dist");
/** They have native code, or are looked for and not needed (`pg-native`). */
const installed = ["@duckdb/node-bindings", "@node-rs/argon2", "pg-native"];

/** The files in `dist` of modules that are resolved at run time, such as a worker's, by their names (`#service/worker/main.ts`). */
const byName: Record<string, string> = {};

const entries: Plugin = {
  name: "entries by name",
  transform(code) {
    for (const [, name = ""] of code.matchAll(/import\.meta\.resolve\("(#[^"]+)"\)/g)) {
      if (name in byName) continue;
      const fileName = `${basename(name.replaceAll("/", "-"), ".ts").slice(1)}.js`;
      byName[name] = `./${fileName}`;
      this.emitFile({ type: "chunk", id: name, fileName });
    }
  },
};

rmSync(dist, { recursive: true, force: true });
const bundle = await rolldown({
  cwd: root,
  input: "src/main.ts",
  platform: "node",
  external: installed.map((name) => new RegExp(`^${name}`)),
  plugins: [entries],
});
// Of two classes with one name in one file, one is called otherwise. Rules tell some of CEL's apart by what they are called.
const { output } = await bundle.write({ dir: dist, chunkFileNames: "[name]-[hash].js", keepNames: true });
// They are found in an order that threads decide.
const imports = Object.fromEntries(
  Object.keys(byName)
    .toSorted()
    .map((name) => [name, byName[name]]),
);
const folders = output
  .flatMap((each) => ("moduleIds" in each ? each.moduleIds : []))
  .flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []);
const libraries = [...new Set(folders)].toSorted();
const bundled = libraries.map((folder) => folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length));
writeFileSync(join(dist, "package.json"), JSON.stringify({ type: "module", imports, bundled }));
writeFileSync(join(dist, "LICENSES"), libraries.map(licenseOf).join("\n"));

const types = join(dist, "types");
execFileSync("tsc", ["--project", fileURLToPath(new URL("tsconfig.json", import.meta.url))], { stdio: "inherit" });
const names = { "#connectors/*.ts": "./connectors/*.d.ts", "#*.ts": "./src/*.d.ts" };
writeFileSync(join(types, "package.json"), JSON.stringify({ type: "module", imports: names }));

/** @param folder of a library */
function licenseOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<
    string,
    string
  >;
  const texts = readdirSync(folder)
    .filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file))
    .map((file) => readFileSync(join(folder, file), "utf8").trim());
  return [`--- ${name} ${version} (${license})`, ...texts, ""].join("\n\n");
}
