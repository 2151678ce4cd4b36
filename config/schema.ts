import { readFile, writeFile } from "node:fs/promises";
import { jsonSchema } from "#config/json-schema.ts";
import { connectors } from "#connectors/index.ts";

/** Writes `schema.json` beside this file; with `--check` it only says whether the file is what would be written. */
const place = new URL("schema.json", import.meta.url);
const text = `${JSON.stringify(jsonSchema(await Promise.all(connectors.map(({ load }) => load()))), null, 2)}\n`;
if (process.argv.includes("--check")) {
  const written = await readFile(place, "utf8").catch(() => "");
  if (written !== text) {
    process.stderr.write("config/schema.json is not what the schemas say; run `npm run schema`\n");
    process.exitCode = 1;
  }
} else {
  await writeFile(place, text);
}
