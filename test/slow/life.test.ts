import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { RunRecord } from "#state/record.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) => `${yaml}    limits: { updates: none }\njournal: { runs: 4, lists: 2 }\n`);
const data = (): string => join(company.folder, "data");

async function runs(): Promise<readonly RunRecord[]> {
  const text = await readFile(join(data(), "daemon", "journal.json"), "utf8").catch(() => '{"runs":[]}');
  return (JSON.parse(text) as { runs: RunRecord[] }).runs;
}

/** The next run that ends. */
async function nextRun(ask: () => void): Promise<RunRecord> {
  const before = (await runs()).at(-1)?.id ?? "";
  const last = async () => (await runs()).findLast(({ id, endedAt }) => id > before && endedAt !== undefined);
  ask();
  await expect.poll(last, { timeout: 60_000 }).toBeDefined();
  return (await last())!;
}

test.runIf(process.platform === "linux")(
  "however many runs a process has behind it, it has no more open, and no more files; and the last run is always known",
  async () => {
    let running: ReturnType<typeof company.start> | undefined;
    await nextRun(() => (running = company.start()));
    const { pid } = running!.process;
    const open = async () => (await readdir(`/proc/${pid}/fd`)).length;
    const files = async () =>
      (await readdir(data(), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).length;
    const demand = () => nextRun(() => process.kill(pid!, "SIGUSR1"));
    const change = async (nth: number): Promise<void> => {
      await company.write("people.csv", people.replace("Ada Lovelace", `Ada Lovelace ${nth}`));
      expect(await demand()).toMatchObject({ state: "applied" });
    };
    for (let nth = 1; nth <= 4; nth++) await change(nth);
    const before = { open: await open(), files: await files() };
    for (let nth = 5; nth <= 12; nth++) await change(nth);
    // What has been closed may be a moment from going.
    await expect.poll(open, { timeout: 10_000 }).toBeLessThanOrEqual(before.open);
    await expect.poll(files, { timeout: 10_000 }).toBeLessThanOrEqual(before.files);
    expect((await runs()).map(({ state }) => state)).toEqual(["applied", "applied", "applied", "applied"]);
    // There are as many runs with changes as are remembered.
    expect(await demand()).toMatchObject({ state: "no change" });
    expect((await runs()).map(({ state }) => state)).toEqual(["applied", "applied", "applied", "no change"]);
  },
);
