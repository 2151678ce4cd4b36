import { describe, expect, onTestFinished, test } from "vitest";
import { cases } from "../../support/random.ts";
import { firstSeed, runHistory } from "../../support/inbox/history.ts";
import { clientOf, serveInboxes } from "../../support/inbox/served.ts";
import { kinds, storeOfEachTest } from "../state/stores.ts";

/**
 * Random clients push to an inbox, up to four at the same time, and compare every answer with what they know themselves.
 * `npm run test:slow` does more of this, and kills the server.
 */

/** Of 200 requests each. */
const histories = cases(2);

describe.each(kinds)("an inbox in: %s", (kind) => {
  const stores = storeOfEachTest(kind);

  test("answers what random clients expect", async () => {
    const { inboxes } = await stores.open();
    const served = await serveInboxes(inboxes);
    onTestFinished(() => served.stop());
    for (let seed = firstSeed; seed < firstSeed + histories; seed++) {
      const client = clientOf(served.urlOf(`s${seed}`));
      expect(await runHistory(seed, 200, client.send)).toBeGreaterThanOrEqual(200);
      await client.close();
    }
  });
});
