import { chown, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { runTool } from "../../support/process.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";
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

test.each([[], ["--json"]])("standard output on a full disk is told in a line: version %j", async (...args) => {
  const { code, stderr } = await startRollcall(["version", ...args], { shell: "exec >/dev/full" }).ended;
  expect([code, stderr]).toEqual([
    1,
    "rollcall: standard output cannot be written: the disk is full; make room, then try again\n",
  ]);
});

/** Says at the end, in a line of its own, which of our dependencies were loaded. What serves ends once it listens. */
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
const looking = setInterval(() => {
  if (process.getActiveResourcesInfo().includes("TCPServerWrap") && process.argv.includes("start")) process.kill(process.pid, "SIGTERM");
}, 20);
looking.unref();
process.on("exit", () => writeSync(1, JSON.stringify([...loaded]) + "\\n"));`;

test.each([
  { command: "version", libraries: "commander fastest-levenshtein pino zod" },
  { command: "runs", libraries: "commander deep-diff fastest-levenshtein lowdb pino yaml zod" },
  // No rule of the company calls `ascii` or `matches`, no source is a workbook, and nobody signs in with a provider.
  {
    command: "apply --yes",
    libraries:
      "@duckdb/node-api @duckdb/node-bindings @fastify/busboy @fastify/cookie @marcbachmann/cel-js @node-rs/argon2 " +
      "commander croner csv-parse deep-diff fastest-levenshtein fastify lowdb pino undici yaml zod",
  },
  {
    command: "start",
    libraries:
      "@duckdb/node-api @duckdb/node-bindings @fastify/busboy @fastify/cookie @fastify/helmet @marcbachmann/cel-js " +
      "@node-rs/argon2 commander croner csv-parse deep-diff fastest-levenshtein fastify hono lowdb pino prom-client " +
      "scim2-parse-filter yaml zod",
  },
])("`rollcall $command` loads no library that it does not need", async ({ command, libraries }) => {
  const company = await makeCompany();
  onTestFinished(company.remove);
  const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { dependencies: object };
  const program = [
    "--import",
    `data:text/javascript,${encodeURIComponent(watching)}`,
    join(root, "bin", "rollcall.js"),
  ];
  const said = await runTool(process.execPath, [...program, ...command.split(" ")], "", {
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

test.skipIf(process.getuid?.() !== 0)("root leaves nothing in an empty data folder of another account", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-runtime-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(
    join(folder, "rollcall.yaml"),
    `service: { listen: 127.0.0.1:0, data: data, administrator: { name: admin, password: "Admin-12345-secret" } }
targets: { analytics: embedded, far: { url: "http://127.0.0.1:1", username: u, password: p } }
sources: { company: { connector: csv, users: { file: people.csv, id: id } } }
syncs:
  staff: { from: [company], to: analytics, users: { name: entry.id, displayName: entry.id } }
  other: { from: [company], to: far, users: { name: entry.id, displayName: entry.id } }
notifications: { hook: { by: webhook, url: "http://127.0.0.1:1/", secret: 0123456789abcdef } }
`,
  );
  await writeFile(join(folder, "people.csv"), "id\n1\n");
  const data = join(folder, "data");
  await mkdir(data);
  await chown(data, 54_321, 54_321);
  const commands = [
    ["start"],
    ["start", "--only", "daemon"],
    ["start", "--only", "service"],
    ["plan", "staff"],
    ["plan", "other"],
    ["apply", "staff"],
    ["apply", "other"],
    ["export", "staff", "--to", join(folder, "tables")],
    ["explain", "1"],
    ["check"],
    ["sql", "SELECT 1"],
    ["notify", "test"],
    ["status"],
    ["runs"],
    ["audit"],
  ];
  for (const command of commands) {
    await rollcall(command, { cwd: folder });
    expect.soft(await readdir(data), command.join(" ")).toEqual([]);
  }
  for (const command of commands.slice(0, 7)) {
    const { code, stderr, stdout } = await rollcall(command, { cwd: folder });
    expect.soft({ code, said: stderr + stdout }, command.join(" ")).toEqual({
      code: 1,
      said: expect.stringMatching(
        /belongs to account 54321, .* run this command as that account \(sudo -u '#54321' …\)/,
      ),
    });
  }
  const home = join(folder, "home");
  await mkdir(home);
  await chown(home, 54_321, 54_321);
  const made = await rollcall(
    [
      "init",
      "--config",
      join(home, "rollcall.yaml"),
      "--yes",
      "--source",
      "csv",
      "--users",
      join(folder, "people.csv"),
      "--id",
      "id",
      "--login",
      "id",
    ],
    {
      cwd: folder,
    },
  );
  expect(made).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`the folder ${home} belongs to account 54321`),
  });
  expect(await readdir(home)).toEqual([]);
  await chown(data, 0, 0);
  expect(await rollcall(["apply", "staff"], { cwd: folder })).toMatchObject({ code: 0 });
});
