import { describe, expect, test } from "vitest";
import { cases, random } from "../../support/random.ts";
import { runHistory } from "../../support/inbox/history.ts";
import { clientOf, serveInbox } from "../../support/inbox/served.ts";
import { kinds, storeOfEachTest } from "../state/stores.ts";

/**
 * Random clients push to an inbox, up to four at the same time, and compare every answer with what they know themselves.
 * `npm run test:slow` does more of this, and kills the server.
 */

/** Of 200 requests each. */
const histories = cases(4);

describe.each(kinds)("an inbox in: %s", (kind) => {
  const stores = storeOfEachTest(kind);

  test("answers what random clients expect", async () => {
    const { inboxes } = await stores.open();
    const first = Math.floor(random() * 2 ** 30);
    for (let number = 0; number < histories; number++) {
      const seed = first + number;
      const served = await serveInbox(inboxes, `s${seed}`);
      const client = clientOf(served.url);
      try {
        await expect(runHistory(seed, 200, client.send)).resolves.toBeUndefined();
      } finally {
        await client.close();
        await served.stop();
      }
    }
  });
});
