import { expect, test } from "vitest";
import { People } from "#daemon/people.ts";
import type { PeopleOptions } from "#daemon/people.ts";
import { createKeyedQueue } from "#queue.ts";
import { load } from "../config/support.ts";

test("the ledger is not read beside a run of the same process, which would lose its lock on it", async () => {
  const { configuration } = await load(`
targets: { app: { url: "https://app.example", username: admin, password: secret } }
sources: { corp: { connector: list } }
syncs: { staff: { from: [corp], to: app, users: { name: entry.id, displayName: entry.id } } }
`);
  const inTurn = createKeyedQueue();
  const options = { current: () => configuration, coordinator: () => ({ inTurn, runs: () => [] }), warn: () => {} };
  const people = new People(options as unknown as PeopleOptions);
  const { promise, resolve } = Promise.withResolvers<void>();
  const run = inTurn("https://app.example", () => promise);
  const of = { sync: "staff", target: "app" };
  const message = "a run to its target is under way; look again when it has ended";
  expect(await people.leavers()).toEqual([{ ...of, error: expect.objectContaining({ message }) }]);
  resolve();
  await run;
  expect(await people.leavers()).toEqual([{ ...of, leavers: [] }]);
});
