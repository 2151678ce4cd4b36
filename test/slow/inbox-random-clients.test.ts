import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Opening } from "../contract/state/opened.ts";
import { kinds, storeOfEachTest } from "../contract/state/stores.ts";
import { MismatchError } from "../support/inbox/client.ts";
import type { Send } from "../support/inbox/client.ts";
import { clientsOf, firstSeed, runHistory } from "../support/inbox/history.ts";
import { clientOf, serveInboxes } from "../support/inbox/served.ts";
import { spawnProgram } from "../support/process.ts";
import { random } from "../support/random.ts";

/** What `test/contract/inbox/random-clients.test.ts` does, often; and with a server that is killed. */

const histories = { folder: 200, postgres: 100 } as const;
const kills = 6;

describe.each(kinds)("an inbox in: %s", (kind) => {
  const stores = storeOfEachTest(kind);

  test("answers what random clients expect", async () => {
    const { inboxes } = await stores.open();
    const served = await serveInboxes(inboxes);
    onTestFinished(() => served.stop());
    for (let seed = firstSeed; seed < firstSeed + histories[kind]; seed++) {
      const client = clientOf(served.urlOf(`s${seed}`));
      expect(await runHistory(seed, 200, client.send)).toBeGreaterThanOrEqual(200);
      await client.close();
    }
  });

  test("that is killed has what it answered, and of the rest each request as a whole or not at all", async () => {
    const server = new KilledServer(() => stores.opening());
    onTestFinished(() => server.stop());
    await server.start();
    const clients = await server.told(clientsOf(firstSeed, 3, (...request) => server.send(...request)));
    for (let kill = 0; kill < kills; kill++) {
      const requests = clients.map(async (client) => {
        for (;;) await client.step();
      });
      const ended = Promise.allSettled(requests);
      await delay(200 + random() * 800);
      await server.stop();
      for (const result of await ended)
        if (result.status === "rejected" && result.reason instanceof MismatchError) throw result.reason;
      if (kind === "postgres") await stores.endLeases();
      await server.start();
      for (const client of clients) await server.told(client.recover());
    }
    for (const client of clients) await server.told(client.verify());
    expect(clients.map(({ log }) => log.length > 50)).toEqual([true, true, true]);
  });
});

/** A server that is started again and again, and killed. */
class KilledServer {
  readonly #opening: () => Opening;
  #child: ChildProcessWithoutNullStreams | undefined;
  #client: ReturnType<typeof clientOf> | undefined;
  #problems = "";

  constructor(opening: () => Opening) {
    this.#opening = opening;
  }

  async start(): Promise<void> {
    const program = new URL("../support/inbox/served.ts", import.meta.url);
    const child = spawnProgram(program, [JSON.stringify(this.#opening())]);
    this.#problems = "";
    child.stderr.on("data", (text: Buffer) => (this.#problems += text.toString()));
    this.#child = child;
    const [url] = (await this.told(once(child.stdout, "data"))) as [Buffer];
    this.#client = clientOf(url.toString().trim());
  }

  send(...request: Parameters<Send>): ReturnType<Send> {
    if (this.#client === undefined) throw new Error("it was not started");
    return this.#client.send(...request);
  }

  /** What fails says what the server said. */
  async told<Result>(work: Promise<Result>): Promise<Result> {
    try {
      return await work;
    } catch (error) {
      const { exitCode, signalCode } = this.#child ?? {};
      throw new Error(`${String(error)}; the server (${exitCode}, ${signalCode}) said: ${this.#problems}`, {
        cause: error,
      });
    }
  }

  /** SIGKILL. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
    await this.#client?.close();
  }
}
