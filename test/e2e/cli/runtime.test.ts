import { chown, cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { runTool } from "../../support/process.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { makeCompany } from "../../support/rollcall/company.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

test("a Node.js that is too old is told so in a line, before anything is parsed that it does not understand", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-runtime-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(join(root, "bin"), join(folder, "bin"), { recursive: true });
  // To one that needs the next but nine, this one is old. The rest of the program is not there at all.
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", engines: { node: ">=35.2" } }));
  const failed = runTool(process.execPath, [join(folder, "bin", "rollcall.js"), "plan"], "", process.env);
  await expect(failed).rejects.toThrow(`needs Node.js 35.2 or newer; ${process.execPath} is ${process.versions.node}`);
});

test("--version says which Rollcall, on which Node.js; also through a link", async () => {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  expect(await rollcall(["--version"])).toMatchObject({
    code: 0,
    stdout: `${version} (Node.js ${process.versions.node})\n`,
  });
  const folder = await mkdtemp(join(tmpdir(), "rollcall-runtime-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await symlink(join(root, "bin", "rollcall.js"), join(folder, "rollcall"));
  expect(await runTool(process.execPath, [join(folder, "rollcall"), "--version"], "", process.env)).toContain(version);
});

/** Says at the end, in a line of its own, which of our dependencies were loaded. */
const watching = `
import { registerHooks } from "node:module";
import { writeSync } from "node:fs";
const loaded = new Set();
registerHooks({
  load(url, context, next) {
    loaded.add(/.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1]);
    return next(url, context);
  },
});
process.on("exit", () => writeSync(1, JSON.stringify([...loaded]) + "\\n"));`;

test.each([
  { command: "version", libraries: "commander deep-diff fastest-levenshtein pino zod" },
  { command: "runs", libraries: "commander deep-diff fastest-levenshtein lowdb pino yaml zod" },
])("`rollcall $command` loads no library that it does not need", async ({ command, libraries }) => {
  const company = await makeCompany();
  onTestFinished(company.remove);
  const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { dependencies: object };
  const program = [
    "--import",
    `data:text/javascript,${encodeURIComponent(watching)}`,
    join(root, "bin", "rollcall.js"),
  ];
  const said = await runTool(process.execPath, [...program, command], "", {
    ...process.env,
    ROLLCALL_CONFIG: company.config,
  });
  const loaded = JSON.parse(said.trim().split("\n").at(-1) ?? "") as string[];
  expect(loaded.filter((name) => name in dependencies).toSorted()).toEqual(libraries.split(" "));
});

test.skipIf(process.getuid?.() !== 0)("root leaves nothing in another account's data folder", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-runtime-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "rollcall.yaml"), "service: { listen: 127.0.0.1:0, data: data }\n");
  expect(await rollcall(["sql", "SELECT 1"], { cwd: folder })).toMatchObject({ code: 0 });
  const owned = join(folder, "data", "service", "service.duckdb");
  const before = await readFile(owned);
  await chown(owned, 54_321, 54_321);
  for (const command of [["sql", "SELECT 1"], ["start"], ["start", "--only", "service"]]) {
    const { code, stderr, stdout } = await rollcall(command, { cwd: folder });
    expect({ code, said: stderr + stdout }).toEqual({
      code: 1,
      said: expect.stringContaining("belongs to account 54321, which could not read files written by root"),
    });
  }
  expect(await readFile(owned)).toEqual(before);
});
