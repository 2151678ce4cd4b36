import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { kinds, storeOfEachTest } from "../contract/state/stores.ts";
import { MismatchError } from "../support/inbox/client.ts";
import type { Send } from "../support/inbox/client.ts";
import { clientsOf, firstSeed, runHistory } from "../support/inbox/history.ts";
import { clientOf, serveInbox } from "../support/inbox/served.ts";
import { spawnProgram } from "../support/process.ts";
import { random } from "../support/random.ts";

/** What `test/contract/inbox/random-clients.test.ts` does, often; and with a server that is killed. */

const histories = { folder: 200, postgres: 100 } as const;
const kills = 6;

describe.each(kinds)("an inbox in: %s", (kind) => {
  const stores = storeOfEachTest(kind);

  test("answers what random clients expect", async () => {
    const { inboxes } = await stores.open();
    for (let seed = firstSeed; seed < firstSeed + histories[kind]; seed++) {
      const served = await serveInbox(inboxes, `s${seed}`);
      const client = clientOf(served.url);
      try {
        expect(await runHistory(seed, 200, client.send)).toBeGreaterThanOrEqual(200);
      } finally {
        await client.close();
        await served.stop();
      }
    }
  });

  test("that is killed has what it answered, and of the rest each request as a whole or not at all", async () => {
    const program = new URL("../support/inbox/served.ts", import.meta.url);
    let send: Send = () => Promise.reject(new Error("it is not started"));
    let close = async (): Promise<void> => {};
    const start = async () => {
      const child = spawnProgram(program, [JSON.stringify(stores.opening()), "okta"]);
      onTestFinished(() => void child.kill("SIGKILL"));
      const [url] = (await once(child.stdout, "data")) as [Buffer];
      ({ send, close } = clientOf(String(url).trim()));
      return child;
    };
    let child = await start();
    const clients = await clientsOf(firstSeed, 3, (...request) => send(...request));
    for (let kill = 0; kill < kills; kill++) {
      const requests = clients.map(async (client) => {
        for (;;) await client.step();
      });
      const ended = Promise.allSettled(requests);
      await delay(200 + random() * 800);
      child.kill("SIGKILL");
      await once(child, "exit");
      for (const result of await ended)
        if (result.status === "rejected" && result.reason instanceof MismatchError) throw result.reason;
      await close();
      if (kind === "postgres") await stores.endLeases();
      child = await start();
      for (const client of clients) await client.recover();
    }
    for (const client of clients) await client.verify();
    expect(clients.map(({ log }) => log.length > 50)).toEqual([true, true, true]);
    child.kill("SIGKILL");
    await close();
  });
});
