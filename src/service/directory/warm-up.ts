import { setImmediate as nextTurn } from "node:timers/promises";
import { createFormDecoder } from "./form.ts";
import { createArrayScanner } from "./json-array.ts";
import { createListObserver } from "./list-traits.ts";

/** How many lists go by until the engine has compiled its best, for any list and not for one alone. */
const lists = 48;

/**
 * Reads lists of nobody, so that the loops that see every byte of a list are compiled before the first one arrives:
 * else the first caller waits for that. In turns of about a millisecond.
 */
export async function warmUp(signal: AbortSignal): Promise<void> {
  const sample = Buffer.from(`principals=${encodeURIComponent(JSON.stringify(principals()))}`);
  for (let list = 0; list < lists && !signal.aborted; list++) {
    const scanner = createArrayScanner(createListObserver());
    const decoder = createFormDecoder(() => ({ write: (bytes) => scanner.scan(bytes) }));
    decoder.write(Buffer.from(sample));
    decoder.end();
    scanner.end();
    await nextTurn();
  }
}

function principals(): object[] {
  return Array.from({ length: 200 }, (_, index) => ({
    name: `user${index}`,
    displayName: index % 20 === 0 ? 'Ökse "the" Ox' : `User Number ${index}`,
    description: index % 3 === 0 ? `Number ${index} of a few` : "",
    mail: `user${index}@example.com`,
    principalTypeEnum: "LOCAL_USER",
    groupNames: Array.from({ length: index % 6 }, (_, place) => `group ${place}`),
  }));
}
