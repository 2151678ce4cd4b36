import { BaseSequencer } from "vitest/node";
import type { TestSpecification } from "vitest/node";

/**
 * The files that take longest, so that none of them is still running when all others have ended. `.ci/run` prints the
 * slowest files: what should be here is named there.
 */
const longest = [
  "test/slow/package.test.ts",
  "test/slow/console-widths.test.ts",
  "test/slow/console-rules.test.ts",
  "test/slow/postgres-failover.test.ts",
  "test/slow/crash/runs.test.ts",
  "test/slow/crash/decisions.test.ts",
  "test/slow/replicas/kills.test.ts",
  "test/slow/replicas/outages.test.ts",
  "test/slow/shared-state.test.ts",
  "test/slow/loads-faults.test.ts",
  "test/slow/queries-worker.test.ts",
  "test/slow/drill.test.ts",
  "test/slow/remote.test.ts",
  "test/slow/failed-checkpoint.test.ts",
  "test/slow/approvals.test.ts",
  "test/slow/causes.test.ts",
  "test/slow/cli/export.test.ts",
  "test/slow/cli/explain.test.ts",
  "test/slow/cli/load.test.ts",
  "test/slow/cli/signals.test.ts",
  "test/slow/replicas/decisions.test.ts",
  "test/slow/replicas/clocks.test.ts",
  "test/slow/schedule.test.ts",
  "test/slow/torn.test.ts",
  "test/contract/state/store.test.ts",
  "test/e2e/cli/start.test.ts",
  "test/e2e/sync/objects.test.ts",
  "test/contract/source/scim.test.ts",
  "test/e2e/cli/one-shot.test.ts",
  "test/e2e/cli/sql.test.ts",
  "test/e2e/control/daemon.test.ts",
  "test/contract/source/ldap.test.ts",
  "test/slow/limits-of-runs.test.ts",
  "test/slow/nothing-new.test.ts",
  "test/e2e/interface/user-sync-validation.test.ts",
  "test/contract/service/directory/stores.test.ts",
];

/** Runs the longest files first, of all projects; then the others as vitest sorts them. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId }: TestSpecification): number => {
      const found = longest.findIndex((path) => moduleId.endsWith(path));
      return found === -1 ? longest.length : found;
    };
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}
