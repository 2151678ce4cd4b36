import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startReplicas } from "../../support/replicas/replicas.ts";
import type { Replicas } from "../../support/replicas/replicas.ts";

/**
 * Of three daemons, one is killed at a point of its work, and in most cases the one that takes over as well. After each,
 * nothing is lost and nothing was done twice. `npm run test:slow` takes every ninth of these points; ROLLCALL_TEST_KILLS=all
 * takes all of them: more than sixty kills, a quarter of an hour.
 */

const isAll = process.env["ROLLCALL_TEST_KILLS"] === "all";

function some<Item>(items: readonly Item[], every = 9): readonly Item[] {
  return isAll ? items : items.filter((_, index) => index % every === 0);
}

let replicas: Replicas;
beforeAll(async () => {
  replicas = await startReplicas({
    syncs: { staff: { schedule: "*/2 * * * * *" } },
  });
  await replicas.startAll();
  for (let version = 1; version <= 3; version++) {
    await replicas.next("staff");
    await replicas.settled("staff");
  }
});
afterAll(() => replicas.close());

describe("a run of the schedule is killed at one point, and the one that takes over at another", () => {
  test.each(
    some([
      ["slot:before", "claim leader:before"],
      ["slot:commit", "claim leader:commit"],
      ["journal running:after", "claim leader:after"],
      ["claim target:commit", "slot:before"],
      ["claim target:after", "slot:after"],
      ["list create", "audit ended:before"],
      ["list trailers", "audit ended:after"],
      ["preview create", "journal failed:before"],
      ["preview bodySent", "journal failed:commit"],
      ["preview headers", "journal failed:after"],
      ["files runs:before", "claim target:after"],
      ["files runs:commit", "claim decisions:after"],
      ["files runs:after", "list create"],
      ["files ledgers:before", "journal running:after"],
      ["files ledgers:commit", "files runs:after"],
      ["files ledgers:after", "files ledgers:after"],
      ["journal running sent:before", "journal running sent:commit"],
      ["journal running sent:commit", "journal running sent:after"],
      ["journal running sent:after", "audit recovered:commit"],
      ["apply create", "audit recovered:after"],
      ["apply sendHeaders", "journal failed:after"],
      ["apply bodySent", "claim target:after"],
      ["apply headers", "audit recovered:before"],
      ["apply trailers", "files ledgers:before"],
      ["verify create", "files ledgers:after"],
      ["verify trailers", "audit recovered:after"],
      ["files ledgers sent:before", "journal applied:before"],
      ["files ledgers sent:commit", "journal applied:commit"],
      ["files ledgers sent:after", "journal applied:after"],
      ["audit ended:before", "claim leader:after"],
      ["audit ended:after", "audit recovered:after"],
      ["journal applied:before", "events:before"],
      ["journal applied:commit", "taken:before"],
      ["journal applied:after", "release:before"],
      ["release:before", "claim decisions:before"],
    ]),
  )("%s, then %s", async (point, next) => {
    await replicas.startAll();
    const first = await replicas.trap(point, "SIGKILL");
    const second = await replicas.trap(next, "SIGKILL", first);
    await replicas.next("staff");
    await replicas.start(await first.fallen());
    // Some of them come only with the next change.
    const people = await replicas.next("staff");
    await second.fallen();
    expect(await replicas.settled("staff")).toEqual(people);
  });
});
