import { afterEach, beforeEach, expect, test, vi } from "vitest";
import scim from "#connectors/scim/index.ts";
import { Pushes } from "#daemon/pushes.ts";
import type { PushesOptions } from "#daemon/pushes.ts";
import type { RunRecord } from "#state/record.ts";
import { runOf } from "../../support/runs.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("a push begins one run, also after the clock was set back", async () => {
  let last = 100_000;
  const runs: RunRecord[] = [];
  const read = async (_: string, work: (inbox: never) => Promise<never>): Promise<never> =>
    work({ activity: async () => ({ revision: 1, last }), restlessSince: async () => undefined } as never);
  const options = { connector: scim, options: { inbox: { settle: 1_000 } } };
  const pushes = new Pushes({
    inboxes: { read } as PushesOptions["inboxes"],
    configuration: () =>
      ({ sources: { okta: options }, syncs: { staff: { from: ["okta"], schedule: "@daily" } } }) as never,
    coordinator: {
      syncs: () => [],
      runs: () => runs,
      begin: async () => {
        const sources = [
          { source: "okta", users: 1, groups: 0, quarantined: 0, pushedUntil: new Date(last).toISOString() },
        ];
        const run = runOf({ sync: "staff", sources });
        runs.unshift(run);
        return { run, ended: Promise.resolve(run) };
      },
    },
    now: () => last + 2_000,
    log: { info: () => undefined, error: (message) => expect.unreachable(message) },
  });
  const begun = async (): Promise<number> => {
    await vi.advanceTimersByTimeAsync(10_000);
    return runs.length;
  };
  expect(await begun()).toBe(1);
  last = 5_000;
  expect(await begun()).toBe(2);
  last = 6_000;
  expect(await begun()).toBe(3);
  pushes.stop();
});
