import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

const read = (path: string): Promise<string> => readFile(new URL(`../../../${path}`, import.meta.url), "utf8");

/** Part of a JSON schema, as far as it leads to keys. */
interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly then?: Schema;
  readonly else?: Schema;
}

/** Every key that a schema knows, as a path: `*` stands for a name, `[]` for an element. */
function keysOf(schema: Schema, path = ""): string[] {
  const { properties = {}, additionalProperties, items, anyOf = [], oneOf = [], allOf = [] } = schema;
  const branches = [schema.then, schema.else].filter((branch) => branch !== undefined);
  const below = Object.entries(properties).flatMap(([key, value]) => {
    const place = path === "" ? key : `${path}.${key}`;
    return [place, ...keysOf(value, place)];
  });
  if (typeof additionalProperties === "object") below.push(...keysOf(additionalProperties, `${path}.*`));
  if (items !== undefined) below.push(...keysOf(items, `${path}[]`));
  for (const part of [...anyOf, ...oneOf, ...allOf, ...branches]) below.push(...keysOf(part, path));
  return below;
}

test.each(["0.1.0", "0.2.0"])("every key of a configuration for %s is still valid", async (release) => {
  const before = (await read(`test/fixtures/${release}/configuration-keys.txt`)).trim().split("\n");
  const now = new Set(keysOf(JSON.parse(await read("config/schema.json")) as Schema));
  expect(before.length).toBeGreaterThan(300);
  expect(before.filter((key) => !now.has(key))).toEqual([]);
});
