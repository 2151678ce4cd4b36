import { once } from "node:events";
import { appendFile, mkdtemp, readFile, readdir, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { conceal } from "#redact.ts";
import { FolderAudit } from "#state/folder/audit.ts";
import type { AuditOptions } from "#state/folder/audit.ts";
import type { Sealed } from "#state/audit/chain.ts";
import type { Head } from "#state/audit/entry.ts";
import { chainIn, readHead } from "#state/folder/chain.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { VerifyOptions } from "#state/audit/verify.ts";
import { spawnProgram } from "../../support/process.ts";
import { random } from "../../support/random.ts";

let folder: string;
let warnings: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-audit-"));
  warnings = [];
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const by = { name: "alice", from: "command line" };
const current = () => join(folder, "audit.jsonl");
const open = (options: AuditOptions = {}) =>
  FolderAudit.open(folder, {
    ...options,
    warn: (message) => {
      warnings.push(message);
    },
  });

/** Opens the file, appends so many rejections, and closes it. */
async function append(count: number, options: AuditOptions = {}): Promise<Head> {
  const audit = await open(options);
  for (let index = 0; index < count; index++)
    await audit.append({ event: "rejected", by, sync: "staff", run: `run-${index}`, reason: "wrong people" });
  await audit.close();
  return audit.head();
}

async function verified(options: VerifyOptions = {}) {
  const told: Sealed[] = [];
  const result = await verifyAudit(chainIn(folder), {
    ...options,
    visit: (entry) => {
      told.push(entry);
    },
  });
  return { ...result, told, events: told.map(({ event }) => event) };
}

const linesOf = async (name = "audit.jsonl") => (await readFile(join(folder, name), "utf8")).split("\n").slice(0, -1);
const putLines = (lines: readonly string[]) => writeFile(current(), lines.map((line) => `${line}\n`).join(""));

test("a fact that is undefined is left out", async () => {
  const audit = await open();
  await audit.append({ event: "rejected", by, sync: "staff", run: "run-0", reason: undefined });
  await audit.append({ event: "rejected", by, sync: "staff", run: "run-1", reason: "wrong people" });
  await audit.close();
  const [first, second] = (await linesOf()).map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(first).not.toHaveProperty("reason");
  expect(second).toHaveProperty("reason", "wrong people");
});

test("entries come in the order they were given in, over several openings, and only their owner may read them", async () => {
  const audit = await open();
  await Promise.all(
    ["a", "b", "c"].map((reason) => audit.append({ event: "rejected", by, sync: "staff", run: "1", reason })),
  );
  await audit.close();
  await append(2);
  const { entries, told, broken, damages } = await verified();
  expect({ entries, broken, damages }).toEqual({ entries: 5, broken: undefined, damages: [] });
  expect(told.map(({ facts }) => facts["reason"])).toEqual(["a", "b", "c", "wrong people", "wrong people"]);
  expect(told[0]).toMatchObject({ sequence: 1, facts: { by, sync: "staff", run: "1" } });
  expect((await stat(current())).mode & 0o777).toBe(0o600);
  await expect(audit.append({ event: "started", by, process: 1 })).rejects.toThrow("closed");
});

test("what people and other systems say is written without secrets", async () => {
  conceal(["wrong-p3ople"]);
  const audit = await open();
  await audit.append({ event: "rejected", by, sync: "staff", run: "run-0", reason: "the wrong-p3ople" });
  await audit.close();
  expect(await readFile(current(), "utf8")).toContain('"reason":"the ***"');
});

test("full files are kept and begun anew, in one chain", async () => {
  const head = await append(40, { fullAt: 2000 });
  expect(await append(1, { fullAt: 2000, expected: head })).toMatchObject({ sequence: 41 });
  const { files, ...result } = await verified({ expected: head });
  expect(result).toMatchObject({ entries: 41, damages: [], head: { sequence: 41 } });
  expect(result.broken).toBeUndefined();
  expect(files.length).toBeGreaterThan(3);
  expect(files.at(0)).toBe("audit-0000000001.jsonl");
  expect(warnings).toEqual([]);
  // Killed between the end of one file and the beginning of the next.
  await rename(current(), join(folder, "audit-0000000041.jsonl"));
  await append(1, { expected: result.head });
  expect(await verified()).toMatchObject({ entries: 42, damages: [], head: { sequence: 42 } });
  await rm(join(folder, files[1] ?? ""));
  expect((await verified()).broken).toMatchObject({ what: "removed", line: 1, file: files[2] });
  const from = Number(files[2]?.slice(6, 16));
  const rest = await verified({ from });
  expect(rest.broken).toBeUndefined();
  expect(rest.told[0]?.sequence).toBe(from);
});

test("a file that becomes full while it is checked is no damage, and no entry is told twice", async () => {
  await append(10, { fullAt: 2000 });
  const told: number[] = [];
  const { broken, entries } = await verifyAudit(chainIn(folder), {
    visit: async ({ sequence }) => {
      if (told.length === 0) await append(10, { fullAt: 2000 });
      told.push(sequence);
    },
  });
  expect(broken).toBeUndefined();
  expect(entries).toBe(20);
  expect(told).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
});

test("a torn last line is cut off, kept, and told of", async () => {
  const head = await append(3);
  await appendFile(current(), '{"sequence":4,"at":"20');
  expect((await verified()).broken).toMatchObject({ what: "torn", line: 4 });
  await append(1, { expected: head });
  const { events, broken, told } = await verified();
  expect(broken).toBeUndefined();
  expect(events).toEqual(["rejected", "rejected", "rejected", "audit torn", "rejected"]);
  const kept = String(told[3]?.facts["kept"]);
  expect(await readFile(join(folder, kept), "utf8")).toBe('{"sequence":4,"at":"20');
  expect((await stat(join(folder, kept))).mode & 0o777).toBe(0o600);
  expect(warnings).toEqual([expect.stringContaining(kept)]);
});

describe("damage is never repaired silently", () => {
  test("a changed line: the file is put aside, a new one continues what is good and says so", async () => {
    const head = await append(5);
    const lines = await linesOf();
    await putLines(lines.with(2, (lines[2] ?? "").replace("wrong people", "right people")));
    const damaged = await readFile(current(), "utf8");
    expect((await verified()).broken).toMatchObject({ file: "audit.jsonl", what: "changed", line: 3 });
    await append(1, { expected: head });
    const { events, damages, files, broken } = await verified();
    expect(broken).toBeUndefined();
    expect(events).toEqual(["rejected", "rejected", "audit damaged", "rejected"]);
    expect(damages[0]?.facts).toMatchObject({ what: "changed", line: 3, kept: files[0], lastGood: { sequence: 2 } });
    expect(await readFile(join(folder, files[0] ?? ""), "utf8")).toBe(damaged);
    expect(warnings).toEqual([expect.stringMatching(/damaged \(changed, line 3\).*audit-0000000001\.damaged-/)]);
    await append(1);
    expect(warnings).toHaveLength(1);
    // Damaged again, at once and in the first line of what continues.
    await putLines((await linesOf()).with(0, "?"));
    await append(1);
    const again = await verified();
    expect(again.events).toEqual(["rejected", "rejected", "audit damaged", "rejected"]);
    expect(again).toMatchObject({ files: { length: 3 }, damages: { length: 1 } });
    expect(again.broken).toBeUndefined();
    expect(await verified({ from: 4 })).toMatchObject({ damages: [], entries: 1, head: { sequence: 4 } });
    expect(await verified({ from: 2 })).toMatchObject({ damages: { length: 1 }, entries: 3 });
    expect((await verified({ from: 0 })).events).toEqual(again.events);
  });

  test("the newest entries are cut off: only who knows the head can tell", async () => {
    const head = await append(5);
    expect(await readHead(folder)).toEqual(head);
    const lines = await linesOf();
    await putLines(lines.slice(0, 3));
    expect((await verified()).broken).toBeUndefined();
    expect((await verified({ expected: head })).broken).toMatchObject({ what: "removed", line: 4 });
    await append(1, { expected: head });
    const { events, damages } = await verified();
    expect(events).toEqual(["rejected", "rejected", "rejected", "audit damaged", "rejected"]);
    expect(damages[0]?.facts).toMatchObject({ what: "removed", lastGood: { sequence: 3 }, expected: head });
  });

  test("all of it is gone, or is another one", async () => {
    const head = await append(5);
    await rm(current());
    expect((await verified({ expected: head })).broken).toMatchObject({ what: "removed" });
    const other = await append(7);
    expect((await verified({ expected: head })).broken).toMatchObject({ what: "changed" });
    await append(0, { expected: head });
    expect((await verified()).events.at(-1)).toBe("audit damaged");
    expect(other.sequence).toBe(7);
  });

  test("while it is open: removed, cut or written to by somebody else", async () => {
    const audit = await open();
    const entry = { event: "rejected", by, sync: "staff", run: "1" } as const;
    for (const harm of [
      () => rm(current()),
      async () => truncate(current(), (await stat(current())).size - 20),
      () => appendFile(current(), "echo\n{}\n"),
      () => rename(current(), join(folder, "moved")),
    ]) {
      await audit.append(entry);
      await audit.append(entry);
      await harm();
      const before = warnings.length;
      await audit.append(entry);
      expect(warnings.slice(before).join("\n")).toContain("damaged (");
      const { broken, events, damages } = await verified({ expected: audit.head() });
      expect(broken).toBeUndefined();
      expect(events.at(-1)).toBe("rejected");
      expect(damages.length).toBeGreaterThan(0);
    }
    await audit.close();
  });

  test("a line is longer than any entry may be", async () => {
    await append(1);
    const audit = await open();
    const reason = "x".repeat(1024 * 1024);
    await expect(audit.append({ event: "rejected", by, sync: "staff", run: "1", reason })).rejects.toThrow("too long");
    await audit.append({ event: "rejected", by, sync: "staff", run: "1", reason: "short" });
    await audit.close();
    expect((await verified()).broken).toBeUndefined();
  });
});

test("a process that is killed while it appends: the chain is whole after the next opening, and what was acknowledged is in it", async () => {
  const program = new URL("appending.ts", import.meta.url);
  let acknowledged: Head | undefined;
  const all: Head[] = [];
  for (let round = 0; round < 12; round++) {
    const args = acknowledged === undefined ? [folder] : [folder, JSON.stringify(acknowledged)];
    const child = spawnProgram(program, args);
    child.stderr.pipe(process.stderr);
    const output = text(child.stdout);
    await once(child.stdout, "data");
    await delay(random() * 150);
    child.kill("SIGKILL");
    const lines = (await output).split("\n").slice(0, -1);
    for (const line of lines) {
      if (line.startsWith("warned")) expect(line).toContain("was incomplete");
      else all.push(JSON.parse(line));
    }
    acknowledged = all.at(-1);
  }
  await append(1, acknowledged === undefined ? {} : { expected: acknowledged });
  const { broken, damages, told, entries } = await verified(
    acknowledged === undefined ? {} : { expected: acknowledged },
  );
  expect(broken).toBeUndefined();
  expect(damages).toEqual([]);
  expect(entries).toBeGreaterThan(12);
  const hashes = new Set(told.map(({ sequence, hash }) => `${sequence} ${hash}`));
  expect(all.filter(({ sequence, hash }) => !hashes.has(`${sequence} ${hash}`))).toEqual([]);
  expect((await readdir(folder)).length).toBeGreaterThan(1);
});
