import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { companyOfEachTest } from "../support/rollcall/company.ts";

/** A source of logins in a file, which tells what stands in another one as its version, and writes down every read. */
const connector = `import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "told",
  options: z.strictObject({ mail: z.string().optional() }),
  open: (options, { folder }) => ({
    version: async () => (await readFile(join(folder, "version"), "utf8")) || undefined,
    async *read() {
      await appendFile(join(folder, "reads"), "read\\n");
      const logins = (await readFile(join(folder, "logins"), "utf8")).split(" ");
      yield logins.map((login) => ({
        kind: "user", id: login, origin: login, keys: [login], memberOf: [], members: [],
        attributes: { login, name: login, mail: login + "@example.com", status: "active" },
      }));
    },
  }),
};`;

const company = companyOfEachTest((yaml) =>
  yaml.replace(/connector: csv[^]*?(?=^syncs)/m, "connector: ./told.ts\n    fullReadEvery: 24h\n"),
);
beforeEach(async () => {
  await company.write("told.ts", connector);
  await company.write("logins", "ada grace");
  await company.write("version", "1");
  await company.write("reads", "");
});

interface Run {
  readonly outcome: string;
  readonly notes: readonly string[];
  readonly plan: { readonly changes: readonly object[]; readonly digest: string };
}

const run = (name: "plan" | "apply"): Promise<Run> => company.run(name);

const reads = async (): Promise<number> =>
  (await readFile(join(company.folder, "reads"), "utf8")).split("\n").length - 1;
const unchanged = expect.stringMatching(/^sources unchanged since \d{4}-.*Z, and not read again/);

test("a source that tells that nothing has changed is not read again; the target is compared all the same", async () => {
  expect((await run("plan")).plan.changes).toHaveLength(2);
  expect((await run("apply")).outcome).toBe("applied");
  expect(await reads()).toBe(2);
  // What the source has now is not looked at: it says that it is as it was.
  await company.write("logins", "ada grace zoe");
  const again = await run("apply");
  expect(again).toMatchObject({ outcome: "no change", notes: [unchanged] });
  expect(await run("plan")).toMatchObject({ outcome: "no change", notes: [unchanged] });
  expect(await reads()).toBe(2);

  await company.write("version", "2");
  const changed = await run("plan");
  expect(changed.plan.changes).toMatchObject([{ action: "create", name: "zoe" }]);
  expect(changed.notes).toEqual([]);
  // A dry run keeps nothing.
  expect((await run("plan")).notes).toEqual([]);
  expect(await run("apply")).toMatchObject({ outcome: "applied", plan: { digest: changed.plan.digest } });
  expect((await run("plan")).notes).toEqual([unchanged]);
  expect((await readdir(join(company.folder, "data/daemon/reads"))).toSorted()).toEqual([
    "staff.json",
    expect.stringMatching(/^staff@/),
  ]);
});

test("what has gone from the target comes back without a read", async () => {
  await company.applied();
  const data = join(company.folder, "data");
  for (const name of await readdir(data)) if (name !== "daemon") await rm(join(data, name), { recursive: true });
  expect(await run("apply")).toMatchObject({
    outcome: "applied",
    notes: [unchanged],
    plan: {
      changes: [
        { action: "create", name: "ada" },
        { action: "create", name: "grace" },
      ],
    },
  });
  expect(await reads()).toBe(1);
});

test.each([
  [
    "the rules change",
    () => company.configure((yaml) => yaml.replace("displayName: entry.name", "displayName: upper(entry.name)")),
  ],
  ["the options change", () => company.configure((yaml) => yaml.replace("told.ts", "told.ts\n    mail: x"))],
  ["the interval has passed", () => company.configure((yaml) => yaml.replace("24h", "1s"))],
  ["there is no interval", () => company.configure((yaml) => yaml.replace("    fullReadEvery: 24h\n", ""))],
  [
    "a rule asks what time it is",
    () => company.configure((yaml) => yaml.replace('"active"', '"active" && now() == now()')),
  ],
  ["the source cannot tell", () => company.write("version", "")],
  ["the source fails to tell", () => rm(join(company.folder, "version"))],
  [
    "what was kept is broken",
    async () => {
      const folder = join(company.folder, "data/daemon/reads");
      const name = (await readdir(folder)).find((each) => each.startsWith("staff@")) ?? "";
      await writeFile(join(folder, name, "assembled.parquet"), "broken");
    },
  ],
])("it is read when %s", async (_, change) => {
  await company.applied();
  await change();
  expect((await run("plan")).notes).toEqual([]);
  expect(await reads()).toBe(2);
});

test("what is known of a sync stays when another one is read whose name begins the same", async () => {
  const other = "staff.json.too";
  const sync = `  ${other}: { from: [company], to: analytics, users: { include: "false", name: entry.login, displayName: entry.name } }\n`;
  await company.configure((yaml) => yaml + sync);
  await company.applied();
  await company.configure((yaml) => yaml.replace("displayName: entry.name\n", "displayName: upper(entry.name)\n"));
  expect((await company.run("apply", "staff")).outcome).toBe("applied");
  expect((await company.run("plan", other)).notes).toContainEqual(unchanged);
});

test("a read that cannot be kept leaves nothing behind", async () => {
  const folder = join(company.folder, "data", "daemon", "reads");
  await mkdir(join(folder, "staff.json"), { recursive: true });
  expect((await company.command("apply")).code).toBe(1);
  expect(await readdir(folder)).toEqual(["staff.json"]);
});
