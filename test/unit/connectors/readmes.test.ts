import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { connectors } from "#connectors/index.ts";

test.each(connectors)("connectors/$name/README.md shows options that are valid", async ({ name, load }) => {
  const readme = await readFile(new URL(`../../../connectors/${name}/README.md`, import.meta.url), "utf8");
  const { options } = await load();
  const examples = [...readme.matchAll(/```yaml\n(.*?)```/gs)].flatMap(([, yaml = ""]) => {
    const { sources = {} } = parse(yaml) as { sources?: Record<string, { connector?: string }> };
    return Object.values(sources).filter(({ connector }) => connector === name);
  });
  expect(examples.length).toBeGreaterThan(1);
  for (const { connector: _, ...shown } of examples) expect(options.safeParse(shown).error).toBeUndefined();
});
