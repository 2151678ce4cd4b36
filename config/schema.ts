import { readFile, writeFile } from "node:fs/promises";
import { jsonSchema, pinboardJsonSchema } from "#config/json-schema.ts";
import { connectors, targetConnectors } from "#connectors/index.ts";

/** Writes the schemas beside this file; with `--check` it only says whether the files are what would be written. */
const schemas = {
  "schema.json": jsonSchema(
    await Promise.all(connectors.map(({ load }) => load())),
    await Promise.all(targetConnectors.map(({ load }) => load())),
  ),
  "pinboard.schema.json": pinboardJsonSchema(),
};
for (const [name, schema] of Object.entries(schemas)) {
  const place = new URL(name, import.meta.url);
  const text = `${JSON.stringify(schema, null, 2)}\n`;
  if (!process.argv.includes("--check")) {
    await writeFile(place, text);
    continue;
  }
  const written = await readFile(place, "utf8").catch(() => "");
  if (written === text) continue;
  process.stderr.write(`config/${name} is not what the schemas say; run \`npm run schema\`\n`);
  process.exitCode = 1;
}
