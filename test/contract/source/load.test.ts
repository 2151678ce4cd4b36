import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectors, loadConnector } from "#connectors/index.ts";
import { InputError } from "#errors.ts";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-load-"));
});

afterAll(() => rm(folder, { recursive: true }));

test("csv comes with Rollcall", () => {
  expect(connectors.map(({ name }) => name)).toContain("csv");
  expect(new Set(connectors.map(({ name }) => name)).size).toBe(connectors.length);
});

test("loads a module of the user's own, relative to the configuration's folder", async () => {
  const here = fileURLToPath(new URL(".", import.meta.url));
  expect(await loadConnector("./hr.ts", here)).toMatchObject({ name: "hr" });
  expect(await loadConnector(join(here, "hr.ts"), "/nowhere")).toMatchObject({ name: "hr" });
});

test.each([
  ["a missing module", undefined, /^\.\/m0\.mjs does not exist; it is relative to the configuration's folder/],
  [
    "a module that lacks another one",
    'import "./other.mjs"; export default {};',
    /^\.\/m1\.mjs fails to load: .*other\.mjs/,
  ],
  [
    "a module that fails",
    'throw new Error("no licence");',
    /^\.\/m2\.mjs fails to load: no licence, at \/.*\/m2\.mjs:1:7$/,
  ],
  ["a module that is no JavaScript", "export default {{", /^\.\/m3\.mjs fails to load: /],
  [
    "a module without default export",
    "export const connector = {};",
    /^\.\/m4\.mjs has no default export; .*`export default`/,
  ],
  [
    "a default export that is no object",
    "export default () => {};",
    /of \.\/m5\.mjs is not a connector: it is not an object/,
  ],
  [
    "a default export of another shape",
    'export default { name: "", options: {}, read() {} };',
    /of \.\/m6\.mjs is not a connector: `name` is not a string, `options` is not a zod schema, `open` is not a function/,
  ],
])("refuses %s", async (_, code, message) => {
  const name = `./${/m\d/.exec(message.source)?.[0]}.mjs`;
  if (code !== undefined) await writeFile(join(folder, name), code);
  const failure: unknown = await loadConnector(name, folder).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(InputError);
  expect(failure).toMatchObject({ message: expect.stringMatching(message) });
});
