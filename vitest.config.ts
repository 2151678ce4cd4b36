import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** What a test waits for comes, however busy the machine is. */
const patient = { poll: { timeout: 60_000 } };

/** The three kinds of test: `unit` does no I/O, `contract` holds implementations to one suite, `e2e` runs real processes. */
export default defineConfig({
  test: {
    // As many files at once as there are cores, not one less: most wait for servers and processes of their own.
    maxWorkers: availableParallelism(),
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          // They do no I/O and keep nothing: a process for each file would spend half its time on loading the same modules.
          isolate: false,
          // A property over many databases takes a while on a busy machine; no test is about time.
          testTimeout: 60_000,
          expect: patient,
        },
      },
      {
        test: {
          name: "contract",
          include: ["test/contract/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: patient,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          expect: patient,
        },
      },
    ],
  },
});
