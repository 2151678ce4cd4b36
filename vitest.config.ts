import { randomInt } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/sequencer.ts";

/** Every random test of a run draws from this seed. ROLLCALL_TEST_SEED repeats an earlier run. */
const seed = process.env["ROLLCALL_TEST_SEED"] ?? String(randomInt(2 ** 31));
process.env["ROLLCALL_TEST_SEED"] = seed;
process.stderr.write(`Random tests: ROLLCALL_TEST_SEED=${seed}\n`);

// What V8 has compiled is shared by all processes of a run: vitest's own ones, those that tests start, and `rollcall`.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compile");

/** Assertions that poll wait this long: what they wait for comes, however busy the machine is. */
const patient = { poll: { timeout: 60_000 } };

const minutes = (count: number): { testTimeout: number; hookTimeout: number } => ({
  testTimeout: count * 60_000,
  hookTimeout: count * 60_000,
});

/** How many times as many cases properties try, in minutes too: no test of one case takes longer than a minute. */
const runs = (usual: number): number => Number(process.env["ROLLCALL_TEST_RUNS"] ?? usual);

/**
 * For files that have no state in modules: they share a process, the modules that it has loaded, and the process in which
 * commands run for them.
 */
const shared = { isolate: false };

/** The test files below a folder that hold properties. */
function propertiesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => path.endsWith(".test.ts") && readFileSync(path, "utf8").includes('"fast-check"'));
}

/**
 * Six tiers. `npm test` runs three: `unit` does no network and starts no process, `contract` holds every implementation of
 * a contract to one suite, `e2e` runs real processes. `npm run test:slow` runs two: `slow`, and the tests of the interface again
 * that depend on where things are stored, with everything stored in PostgreSQL. `npm run test:properties` tries the properties
 * of `unit` and `contract` with more cases, ROLLCALL_TEST_RUNS times as many.
 */
export default defineConfig({
  // In a checkout the package's entries are not compiled.
  resolve: { alias: { "rollcall/connector": join(import.meta.dirname, "src/library/connector.ts") } },
  test: {
    // More files at once than there are cores: most tests wait for servers and processes of their own.
    maxWorkers: 2 * availableParallelism(),
    setupFiles: ["test/support/random.ts"],
    sequence: { sequencer: LongestFirst },
    expect: patient,
    projects: [
      { extends: true, test: { name: "unit", include: ["test/unit/**/*.test.ts"], ...shared, ...minutes(runs(1)) } },
      {
        extends: true,
        test: { name: "contract", include: ["test/contract/**/*.test.ts"], ...shared, ...minutes(runs(1)) },
      },
      { extends: true, test: { name: "e2e", include: ["test/e2e/**/*.test.ts"], ...shared, ...minutes(2) } },
      { extends: true, test: { name: "slow", include: ["test/slow/**/*.test.ts"], ...minutes(10) } },
      {
        extends: true,
        test: {
          name: "postgres",
          include: ["test/e2e/interface/**/*.test.ts"],
          exclude: [
            // Pinboards with DuckDB's own SQL and their files.
            "test/e2e/interface/{pinboards,pinboards-files}.test.ts",
            // What is answered before anything is stored or asked: connections, headers, and requests that are wrong.
            "test/e2e/interface/{transport,headers,errors,other-sites,broken-bodies,user-sync-validation}.test.ts",
          ],
          globalSetup: "test/support/postgres-for-all.ts",
          env: { ROLLCALL_TEST_ENGINE: "postgres" },
          ...minutes(10),
        },
      },
      {
        extends: true,
        test: {
          name: "properties",
          include: [...propertiesIn("test/unit"), ...propertiesIn("test/contract")],
          ...shared,
          env: { ROLLCALL_TEST_RUNS: String(runs(2)) },
          ...minutes(runs(2)),
        },
      },
    ],
  },
});
