import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { atTerminal } from "../../support/rollcall/terminal.ts";

const company = companyOfEachTest();
const { begin, command } = company;

/** A source that does not end before it is told to. */
beforeEach(async () => {
  await company.write(
    "own.ts",
    `import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
    import { setTimeout as delay } from "node:timers/promises";
    const read = async function* ({ signal }) {
      console.error("the read has begun");
      await delay(600_000, undefined, { signal });
    };
    export default { name: "own", options: z.strictObject({}), open: () => ({ read }) };`,
  );
  await company.configure((yaml) => yaml.replace(/connector: csv[^]*?(?=^syncs)/m, "connector: ./own.ts\n"));
});

const audit = () => readFile(join(company.folder, "data", "daemon", "audit.jsonl"), "utf8");

test("SIGHUP ends a run in an orderly way, which the run and the audit log say", async () => {
  const applying = begin("apply", "--yes");
  await applying.wrote("the read has begun");
  applying.process.kill("SIGHUP");
  const { code, signal, stderr } = await applying.ended;
  expect({ code, signal }).toEqual({ code: 1, signal: null });
  expect(stderr).toContain("staff: Cancelled: the terminal was closed. Nothing was applied.");
  const { runs } = JSON.parse((await command("runs", "--json")).stdout);
  // For 0.2 it has failed; people are told that somebody stopped it.
  expect(runs).toMatchObject([
    { state: "failed", cancelled: true, error: { message: expect.stringContaining("terminal was closed") } },
  ]);
  expect((await command("runs", "--state", "cancelled")).stdout).toMatch(/ cancelled /);
  expect((await command("audit")).stdout).toMatch(/ended: cancelled/);
  expect((await command("runs", "--state", "failed")).stdout).toContain("no run matches");
  expect(await audit()).toContain("the terminal was closed");
});

test.each([["apply", "--yes"], ["start"]])(
  "a terminal that is closed under %s ends it the same way, though nothing can be shown any more",
  async (...args) => {
    const { folder: cwd } = company;
    const terminal = atTerminal([...args, "--config", company.config], { cwd });
    await terminal.answer("the read has begun", "");
    terminal.close();
    await terminal.ended;
    const end = args[0] === "start" ? '"reason":"SIGHUP"' : "the terminal was closed";
    await expect.poll(audit, { timeout: 20_000 }).toContain(end);
    // The audit log has the end a moment before the journal has it, and before the process is gone.
    const runs = async () => JSON.parse((await command("runs", "--json")).stdout).runs;
    await expect.poll(runs, { timeout: 20_000 }).toMatchObject([{ state: "failed" }]);
    expect((await command("audit", "verify")).code).toBe(0);
  },
);

test("a run whose process was killed is shown as such by commands that only read, and by no other as running", async () => {
  const applying = begin("apply", "--yes");
  await applying.wrote("the read has begun");
  const running = await command("runs", "--json");
  expect(JSON.parse(running.stdout).runs).toMatchObject([{ state: "running" }]);
  // The journal has a stage a moment after it has begun.
  const journal = (): Promise<string> => readFile(join(company.folder, "data", "daemon", "journal.json"), "utf8");
  await expect.poll(journal, { timeout: 20_000 }).toContain('"stage": "read"');
  applying.process.kill("SIGKILL");
  await applying.ended;
  const message = "its process was killed after the stage read, or could no longer write: nothing was applied";
  const before = await journal();
  const { runs } = JSON.parse((await command("runs", "--json")).stdout);
  expect(runs).toMatchObject([{ state: "failed", error: { message, advice: "retry" } }]);
  expect((await command("runs")).stdout).toMatch(/ failed .* its process was killed/);
  expect((await command("runs", "--state", "running")).stdout).toBe("no run matches\n");
  const shown = await command("show", "latest");
  expect(shown.stdout).toMatch(/state +failed\n/);
  expect(shown.stdout).toContain(message);
  expect(await journal()).toBe(before);
});
