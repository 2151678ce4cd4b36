import { parseArgs } from "node:util";
import { setTimeout as delay } from "node:timers/promises";
import { startReplicas } from "../support/replicas/replicas.ts";
import { machine, median, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

/** How long it takes others to see that a lease has ended, in milliseconds. */
const longestLook = 2000;

/** How long it takes from the end of the daemon that leads, by SIGKILL, to the first run that another one begins. */
export async function failover(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: { times: { type: "string", default: "5" }, leases: { type: "string", default: "2,15" } },
  });
  const times = wholeNumber(values.times);
  const rows: string[][] = [];
  const figures: Figure[] = [];
  for (const lease of values.leases.split(",").map((text) => wholeNumber(text))) {
    const found = await measure(times, lease * 1000);
    figures.push({
      what: `a run begins elsewhere, lease ${lease} s`,
      value: median(found),
      unit: "ms",
      goal: lease * 1000 + longestLook,
    });
    rows.push([
      `${lease} s`,
      String(times),
      seconds(median(found)),
      seconds(Math.min(...found)),
      seconds(Math.max(...found)),
    ]);
  }
  console.log(`${machine()}; three daemons, a run every second.\n`);
  console.log(table(["Lease", "Kills", "Median", "Shortest", "Longest"], rows));
  return figures;
}

async function measure(times: number, lease: number): Promise<number[]> {
  const replicas = await startReplicas({ syncs: { staff: { schedule: "* * * * * *" } }, lease });
  const found: number[] = [];
  try {
    await replicas.next("staff");
    await replicas.startAll();
    while (found.length < times) {
      await replicas.settled("staff");
      const index = await replicas.leader();
      await replicas.kill(index);
      const killed = performance.now();
      const before = (await replicas.runs()).at(-1)?.id ?? "";
      while (((await replicas.runs()).at(-1)?.id ?? "") <= before) await delay(20);
      found.push(performance.now() - killed);
      console.error(`lease ${lease / 1000} s: ${seconds(found.at(-1))}`);
      await replicas.startAll();
    }
  } finally {
    await replicas.close();
  }
  return found;
}
