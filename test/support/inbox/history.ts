import { RandomClient } from "./client.ts";
import type { Send } from "./client.ts";
import { Draw } from "./draw.ts";

/** Histories of a run draw from this seed on. */
export const firstSeed = Number(process.env["ROLLCALL_TEST_SEED"]);

/** The clients of an inbox to which nobody else pushes. */
export async function clientsOf(seed: number, count: number, send: Send): Promise<RandomClient[]> {
  const { body } = await send("POST", "/Groups", { displayName: "shared" });
  return Array.from(
    { length: count },
    (_, index) =>
      new RandomClient({
        name: `c${index}`,
        send,
        draw: new Draw(seed * 31 + index),
        isAlone: count === 1,
        shared: String(body.id),
      }),
  );
}

/**
 * A history of random requests, each of which is answered as it must be; at the end, everything is as the answers said.
 * @returns how many requests that were
 * @throws {Error} with the seed, and the last requests
 */
export async function runHistory(seed: number, requests: number, send: Send): Promise<number> {
  const count = 1 + (seed % 4);
  const clients = await clientsOf(seed, count, send);
  let answered = 0;
  try {
    await Promise.all(
      clients.map(async (client) => {
        for (let number = 0; number < requests / count; number++, answered++) await client.step();
      }),
    );
    for (const client of clients) await client.verify();
    for (const [path, expected] of [
      ["/Users", clients.reduce((sum, { known }) => sum + known.users.size, 0)],
      ["/Groups", clients.reduce((sum, { known }) => sum + known.groups.size - 1, 1)],
    ] as const) {
      const { body } = await send("GET", `${path}?count=1`);
      if (body.totalResults !== expected) throw new Error(`${path}: expected ${expected}, not ${body.totalResults}`);
    }
    return answered;
  } catch (error) {
    throw new Error(`history ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}
