import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { failure, load, problemsOf, valid, withSync } from "./support.ts";

const rule = (expression: string): string => valid.replace("entry.uid", `'${expression}'`);
const password = (value: string): string => `service: { administrator: { password: "${value}" } }\n`;
const place = "rollcall.yaml:1:39: service.administrator.password:";

test("a secret is a regular file of at most 64 KiB, whatever else has its path", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-pipe-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const pipe = join(folder, "pipe");
  await promisify(execFile)("mkfifo", [pipe]);
  for (const [path, what] of [
    ["/dev/zero", "it is a device or a pipe, not a regular file"],
    [pipe, "it is a device or a pipe, not a regular file"],
    [folder, "it is a folder"],
    ["/proc/self/maps-of-nobody", "it does not exist"],
  ] as const)
    expect(await problemsOf(password(`\${file:${path}}`))).toEqual([
      `${place} \${file:${path}} cannot be read: ${what} (${path})`,
    ]);
  expect(await problemsOf(password("${file:long}"), { files: { long: "x".repeat(65_537) } })).toEqual([
    `${place} \${file:long} cannot be read: it is larger than 64 KiB (long)`,
  ]);
  const { configuration } = await load(password("${file:long}"), { files: { long: `${"x".repeat(65_535)}\n` } });
  expect(configuration.service?.administrator.password).toHaveLength(65_535);
  // The size of these is not known beforehand.
  await load(password("${file:/proc/self/status}"));
});

test("what all substitutions bring in is bounded, also where aliases repeat them", async () => {
  const files = { long: "x".repeat(65_536) };
  const anchors = `service: { administrator: { name: &a "${"${file:long}".repeat(10)}", password: [*a, *a, *a] } }\n`;
  expect(await problemsOf(anchors, { files })).toContain(
    "rollcall.yaml:1:762: service.administrator.password[1]: what ${…} brings in is longer than 1 MiB altogether".replace(
      "762",
      String(anchors.indexOf("*a, *a]") + 1),
    ),
  );
});

test.each(["__proto__", "constructor", "toString"])("${env:%s} is not set, unless it is", async (name) => {
  expect(await problemsOf(password(`\${env:${name}}`))).toEqual([
    `${place} the environment variable ${name} is not set; set it, or give a default: \${env:${name}:-default}`,
  ]);
  expect(await problemsOf(password(`\${env:${name}}`), { environment: process.env })).toHaveLength(1);
});

test("the file itself is a regular one of at most 1 MiB", async () => {
  const { message } = await failure(`${valid}#${" ".repeat(1024 ** 2)}`);
  expect(message).toBe(
    "rollcall.yaml cannot be read: it is larger than 1 MiB; name the configuration with --config FILE",
  );
  await load(valid + "#".repeat(1024 ** 2 - valid.length));
});

test("files that are named in it are regular ones", async () => {
  expect(await problemsOf("service: { tables: /dev/zero }")).toEqual([
    "rollcall.yaml:1:20: service.tables: /dev/zero is a device or pipe, not a file",
  ]);
});

test("the first 100 of very many problems are told", async () => {
  const { message, problems } = await failure("service:\n".repeat(2001));
  expect(message).toBe("rollcall.yaml has 2,000 problems");
  expect(problems).toHaveLength(101);
  expect(problems.at(-1)).toBe("… and 1,900 further problems");
});

test("a rule has at most 16 KiB and few enough operators", async () => {
  const at = (message: string) =>
    expect.stringMatching(new RegExp(`^rollcall\\.yaml:12:\\d+: syncs\\.staff\\.users\\.name: ${message}`));
  expect(await problemsOf(rule(`"${"x".repeat(16 * 1024)}"`))).toEqual([at("a rule has at most 16 KiB")]);
  expect(await problemsOf(rule(`"${"ü".repeat(8 * 1024)}"`))).toEqual([at("a rule has at most 16 KiB")]);
  await load(rule(`"${"x".repeat(16 * 1024 - 2)}"`));
  for (const [before, after] of [
    ['"a"', '+"a"'],
    ["-1", " + -1"],
    ["true", "||true"],
  ] as const)
    expect(await problemsOf(rule(before + after.repeat(2600)))).toEqual([at("too many operators in one expression")]);
  expect(await problemsOf(rule(`${"!".repeat(16_000)}true`))).toEqual([at("too many operators in one expression")]);
  const unique = `name + string(n)${'+"a"'.repeat(4000)}`;
  expect(await problemsOf(valid.replace("entry.uid", `{ value: entry.uid, unique: '${unique}' }`))).toEqual([
    expect.stringContaining("syncs.staff.users.name.unique: too many operators in one expression"),
  ]);
  expect(await problemsOf(rule("(".repeat(8000)))).toEqual([at("")]);
  expect(await problemsOf(withSync(`join: { users: '"${"x".repeat(20_000)}"' }`))).toHaveLength(1);
});

test("a regular expression may not repeat so much that it takes long to compile", async () => {
  const matching = (pattern: string) => problemsOf(rule(`string("x".matches("${pattern}"))`));
  for (const pattern of ["(((a{30}){30}){1})".repeat(800), "(?:[a-z]{0,100}){0,300}", `(${"abc".repeat(30)}){300}`])
    expect(await matching(pattern)).toEqual([
      expect.stringContaining("syncs.staff.users.name: the regular expression is too large; repeat less in it"),
    ]);
  for (const pattern of ["a{1000}", "[a-z0-9._%+-]{1,64}@([a-z0-9-]{1,63}[.]){1,8}[a-z]{2,63}"])
    await load(rule(`string("x".matches("${pattern}"))`));
});

test.each([
  ["daemon: { lease: 25d }", "daemon.lease"],
  ["service: { loads: { statusHold: 25d } }", "service.loads.statusHold"],
])("a wait that no timer can hold is refused: %s", async (lines, key) => {
  const problems = await problemsOf(`${lines}\n`);
  expect(problems.filter((each) => each.includes(key))).toEqual([
    expect.stringContaining('expected a duration of at most 24d, not "25d"'),
  ]);
});
