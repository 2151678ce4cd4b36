import { appendFile, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import type { Ended } from "../../support/rollcall/rollcall.ts";

const company = companyOfEachTest((yaml) => yaml.replace("initial-user-secret", '"${env:INITIAL}"'), {
  INITIAL: "initial-user-secret",
});
const folder = () => join(company.folder, "data", "daemon");
const file = () => join(folder(), "audit.jsonl");

/** Starts the daemon; once it has synced, or knows when it will, ends it with a signal. */
async function daemon(signal: NodeJS.Signals = "SIGTERM"): Promise<Ended> {
  const each = company.begin("start");
  await each.wrote(/applied and verified|its next slot is at/);
  each.process.kill(signal);
  return each.ended;
}

const audit = (...args: string[]) => company.command("audit", ...args);
const verify = (...args: string[]) => company.command("audit", "verify", ...args);

test("starts, stops and what is different in the configuration are told; secrets only as another one", async () => {
  expect(await verify()).toMatchObject({ code: 0, stdout: expect.stringContaining("no audit log") });
  await daemon();
  await company.configure((yaml) => yaml.replace("entry.login", "lower(entry.login)"));
  company.env = { INITIAL: "another-user-secret" };
  await daemon();
  const { code, stdout, stderr } = await audit("--json");
  expect(code, stderr).toBe(0);
  const { entries } = JSON.parse(stdout);
  const events = entries.map(({ event }: { event: string }) => event);
  const each = ["configuration", "started", "stopped"];
  expect(events.filter((event: string) => each.includes(event))).toEqual([...each, ...each]);
  const [first, second] = entries.filter(({ event }: { event: string }) => event === "configuration");
  expect(first).toMatchObject({ file: company.config, differences: [] });
  expect(first).not.toHaveProperty("before");
  expect(second).toMatchObject({
    before: first.digest,
    differences: [
      "syncs.staff.defaultPassword: *** → another secret",
      'syncs.staff.users.name: "entry.login" → "lower(entry.login)"',
    ],
  });
  const readable = await audit();
  expect(readable.stdout).toContain('      syncs.staff.users.name: "entry.login" → "lower(entry.login)"\n');
  expect((await audit("--from", String(second.sequence))).stdout.startsWith(`${second.sequence}  `)).toBe(true);
  expect(await audit("--since", "2999-01-01")).toMatchObject({ code: 0, stdout: "" });
  expect(await audit("--run", "none", "--json")).toMatchObject({ code: 0, stdout: '{"entries":[\n]}\n' });
  for (const name of await readdir(folder())) {
    if (!/^audit|^configuration/.test(name)) continue;
    expect(await readFile(join(folder(), name), "utf8")).not.toMatch(/-secret/);
  }
});

test("what SIGHUP takes over is told before it is in force", async () => {
  const each = company.begin("start");
  await each.wrote("applied and verified");
  await company.configure((yaml) => yaml.replace("0 0 1 1 *", "0 0 2 1 *"));
  each.process.kill("SIGHUP");
  await each.wrote("the configuration was reloaded");
  const { entries } = JSON.parse((await audit("--json")).stdout);
  expect(entries.at(-1)).toMatchObject({
    event: "configuration",
    by: { name: "rollcall", from: "signal" },
    differences: ['syncs.staff.schedule: "0 0 1 1 *" → "0 0 2 1 *"'],
  });
});

test("verify says where the file is not what was written, and goes on saying so after the next start", async () => {
  await daemon();
  const whole = await verify("--json");
  expect(whole).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(whole.stdout)).toMatchObject({ whole: true, files: ["audit.jsonl"], damages: [] });
  const { head } = JSON.parse(whole.stdout);
  expect((await verify("--head", `${head.sequence}:${head.hash}`)).code).toBe(0);
  expect(await verify("--head", `${head.sequence + 1}:${head.hash}`)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(`entries up to ${head.sequence + 1} were written`),
  });
  const lines = (await readFile(file(), "utf8")).split("\n");
  // That the daemon stopped is the last entry: nothing else was written after it.
  await writeFile(file(), lines.slice(0, -2).join("\n") + "\n");
  expect(await verify()).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(
      `entries up to ${head.sequence} were written, and the last one here is ${head.sequence - 1}`,
    ),
  });
  await writeFile(file(), lines.with(1, (lines[1] ?? "").replace('"by"', '"By"')).join("\n"));
  expect(await verify()).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("BROKEN: audit.jsonl, line 2 (changed)"),
  });
  expect((await audit()).stderr).toContain("audit.jsonl, line 2 (changed)");
  expect((await daemon()).stdout).toContain("the audit log is damaged (changed, line 2)");
  const after = await verify("--json");
  expect(after.code).toBe(1);
  const { damages, broken } = JSON.parse(after.stdout);
  expect(broken).toBeUndefined();
  expect(damages).toMatchObject([{ sequence: 2, what: "changed", line: 2, lastGood: { sequence: 1 } }]);
  expect((await verify("--from", "3")).code).toBe(0);
});

test("after a kill, a line that was not written to its end is put aside at the next start", async () => {
  await daemon("SIGKILL");
  await appendFile(file(), '{"sequence":');
  expect(await verify()).toMatchObject({ code: 1, stdout: expect.stringContaining("(torn)") });
  await daemon();
  expect((await verify()).code).toBe(0);
  expect((await audit()).stdout).toContain("was incomplete, and was cut off");
  expect((await readdir(folder())).filter((name) => name.startsWith("audit.torn-"))).toHaveLength(1);
});
