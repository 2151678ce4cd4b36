import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { makeCompany } from "../../support/rollcall/company.ts";
import type { CompanyFolder } from "../../support/rollcall/company.ts";
import { startRollcall, stopRollcall } from "../../support/rollcall/rollcall.ts";

let company: CompanyFolder;
beforeAll(async () => {
  company = await makeCompany();
});
afterAll(() => company.remove());

const begin = (args: readonly string[], umask: string): ReturnType<typeof startRollcall> =>
  startRollcall([...args, "--config", company.config], { cwd: company.folder, shell: `umask ${umask}` });

/** What others than the owner could read or write below the data folder. */
async function open(): Promise<readonly string[]> {
  const data = join(company.folder, "data");
  const names = await readdir(data, { recursive: true });
  expect(names.some((name) => name.endsWith(".duckdb"))).toBe(true);
  const modes = await Promise.all(
    names.map(async (name) => {
      const mode = await lstat(join(data, name)).then(
        (found) => found.mode & 0o077,
        () => 0,
      );
      return mode === 0 ? [] : [`${name} ${mode.toString(8)}`];
    }),
  );
  return modes.flat();
}

test("what is in the data folder is for its owner alone, whatever the umask; what a person asks for is as they want it", async () => {
  const daemon = begin(["start"], "0");
  onTestFinished(() => void daemon.process.kill("SIGKILL"));
  await daemon.wrote("applied and verified");
  // While it runs, there are logs beside the databases.
  expect(await open()).toEqual([]);
  await stopRollcall(daemon);
  expect((await begin(["plan"], "0").ended).code).toBe(0);
  expect(await open()).toEqual([]);
  const { runs } = JSON.parse((await begin(["runs", "--json"], "0").ended).stdout) as { runs: { id: string }[] };
  const [{ id } = { id: "" }] = runs;
  for (const [umask, mode] of [
    ["0", 0o666],
    ["027", 0o640],
  ] as const) {
    const report = `report-${umask}.html`;
    const shown = await begin(["show", id, "--format", "html", "--output", report], umask).ended;
    expect(shown.code, shown.stderr).toBe(0);
    expect((await lstat(join(company.folder, report))).mode & 0o777).toBe(mode);
  }
});
