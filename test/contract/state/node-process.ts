import { setTimeout as delay } from "node:timers/promises";
import { Postgres } from "#postgres/database.ts";
import { postgres as options } from "#postgres/options.ts";
import { openNode } from "#state/postgres/nodes.ts";

/** Has a claim and checks its lease, as a run does right before it sends something, until it has lost it. */
const postgres = await Postgres.open(options.parse({ postgres: process.argv[2] }));
const node = await openNode(postgres, 1_000);
const say = (text: string): boolean => process.stdout.write(`${text}\n`);
if (await node.claim("target")) say("claimed");
let lastSent = performance.now();
try {
  for (;;) {
    node.check();
    const now = performance.now();
    if (now - lastSent > 900) say("sent after a pause");
    lastSent = now;
    await delay(20);
  }
} catch (error) {
  say(`checked: ${(error as Error).message}`);
}
await node
  .fenced(async () => say("sent after all"))
  .catch((error: unknown) => {
    say(`fenced: ${(error as Error).message}`);
  });
await node.close();
await postgres.close();
