import { readFile, writeFile } from "node:fs/promises";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { format } from "oxfmt";
import { jsonSchema } from "#config/json-schema.ts";
import { connectors, targetConnectors } from "#connectors/index.ts";
import description from "../../package.json" with { type: "json" };
import { commandReference } from "./commands.ts";
import { configurationReference } from "./configuration.ts";
import { openApi } from "./openapi.ts";

/**
 * Writes the documents that are made from the code. With `--check` it writes nothing: it says which of them are out of
 * date, and what the linter finds in the OpenAPI document.
 */
const check = process.argv.includes("--check");
const schema = jsonSchema(
  await Promise.all(connectors.map(({ load }) => load())),
  await Promise.all(targetConnectors.map(({ load }) => load())),
);
const api = JSON.stringify(openApi(description.version));
const documents: Record<string, string> = {
  "interface/openapi.json": api,
  "reference/commands.md": await commandReference(),
  "reference/configuration.md": configurationReference(schema),
};

for (const [name, text] of Object.entries(documents)) {
  const place = new URL(`../${name}`, import.meta.url);
  const { code } = await format(name, text, { printWidth: 120 });
  if (!check) await writeFile(place, code);
  else if ((await readFile(place, "utf8").catch(() => "")) !== code)
    fail(`docs/${name} is out of date; run \`npm run docs\``);
}

if (check) {
  const config = await createConfig({
    extends: ["recommended-strict"],
    // The example of a server that everybody has at hand is the one on this machine.
    rules: { "no-server-example.com": "off", "operation-4xx-response": "off" },
  });
  for (const { ruleId, message, location } of await lintFromString({ source: api, config })) {
    fail(`docs/interface/openapi.json: ${location[0]?.pointer ?? ""}: ${message} (${ruleId})`);
  }
}

function fail(message: string): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}
