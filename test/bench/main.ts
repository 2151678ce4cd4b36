import { causes } from "./causes.ts";
import { consolePages } from "./console.ts";
import { crowd } from "./crowd.ts";
import { engines } from "./engines.ts";
import { failover } from "./failover.ts";
import { growth } from "./growth.ts";
import { idle } from "./idle.ts";
import { inbox } from "./inbox.ts";
import { ldap } from "./ldap.ts";
import { life } from "./life.ts";
import { load } from "./load.ts";
import { passwords } from "./passwords.ts";
import { pinboards } from "./pinboard.ts";
import { replicas } from "./replicas.ts";
import { writeResults } from "./results.ts";
import type { Figure } from "./results.ts";
import { runShapes } from "./shapes.ts";
import { sources } from "./sources.ts";
import { start } from "./start.ts";
import { sync } from "./sync.ts";
import { targets } from "./targets.ts";
import { unchanged } from "./unchanged.ts";

interface Bench {
  /** Prints a Markdown table to standard output and progress to standard error. */
  readonly run: (args: readonly string[]) => Promise<Figure[]>;
  /** The arguments with which it takes a few seconds. */
  readonly quick: string;
}

const benches: Readonly<Record<string, Bench>> = {
  causes: { run: causes, quick: "--n 300 --rounds 1" },
  console: { run: consolePages, quick: "--changes 300 --principals 5000 --rounds 1" },
  crowd: { run: crowd, quick: "--seconds 1 --alone 1 --clients 13 --users 300" },
  engines: { run: engines, quick: "--n 300 --rounds 1" },
  failover: { run: failover, quick: "--times 1 --leases 1" },
  growth: { run: growth, quick: "--n 100,200" },
  idle: { run: idle, quick: "--rounds 1 --settle 1 --watch 1 --brief" },
  inbox: { run: inbox, quick: "--n 30 --there 2000 --rounds 1" },
  ldap: { run: ldap, quick: "--users 200 --groups 10 --memberships 400 --rounds 1 --peers ldapts" },
  life: { run: life, quick: "--runs 3 --every 1 --settle 0 --users 50 --scheduled 0 --rounds 1" },
  load: { run: load, quick: "--rows 2000 --small 3 --rounds 1" },
  passwords: { run: passwords, quick: "--n 120 --after 0" },
  pinboard: { run: pinboards, quick: "--rows 2000 --rounds 1 --seconds 1" },
  postgres: { run: replicas, quick: "--users 10 --rows 100 --rounds 1 --seconds 1 --brief" },
  shapes: { run: runShapes, quick: "--only cycle --scale 0.001" },
  sources: { run: sources, quick: "--users 600 --groups 20 --rounds 1" },
  start: { run: start, quick: "--rounds 1" },
  sync: { run: sync, quick: "--n 300 --rounds 1" },
  targets: { run: targets, quick: "--users 100 --groups 5" },
  unchanged: { run: unchanged, quick: "--n 300 --rounds 1 --settle 1" },
};

const usage = `npm run bench                       all of them; writes docs/benchmarks.md and docs/benchmarks.json
npm run bench -- NAME [options]     one, which prints a Markdown table; with --write it is written, too
npm run bench -- --quick            all with small sizes, to see that they work; writes nothing
names: ${Object.keys(benches).join(", ")}`;

const given = process.argv.slice(2);
const args = given.filter((each) => each !== "--write");
const [first] = args;
const chosen = first === undefined || first === "--quick" ? undefined : benches[first];
if (chosen !== undefined && first !== undefined) {
  const figures = plausible(first, await chosen.run(args.slice(1)));
  if (given.includes("--write")) await writeResults(first, figures);
} else if (first === undefined) {
  for (const [name, { run }] of Object.entries(benches)) {
    console.error(`\n${name}`);
    await writeResults(name, plausible(name, await run([])));
  }
} else if (first === "--quick" && args.length === 1) {
  const waiting = Object.entries(benches);
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [name, { run, quick }] = next;
      const started = performance.now();
      const figures = plausible(name, await run(quick.split(" ")));
      console.error(`${name}: ${figures.length} figures in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    }
  };
  // Nobody looks at these times: two at once.
  await Promise.all([work(), work()]);
} else {
  console.error(usage);
  process.exitCode = 1;
}

/** @throws {Error} when a bench has measured nothing, or something that cannot be */
function plausible(bench: string, figures: Figure[]): Figure[] {
  if (figures.length === 0) throw new Error(`${bench} has measured nothing`);
  for (const { what, value, unit, limit, cpu, memory, eventLoop } of figures) {
    const others = [limit?.value, memory].filter((each) => each !== undefined);
    const times = [cpu, eventLoop].filter((each) => each !== undefined);
    const isPossible =
      Number.isFinite(value) &&
      (unit === "exponent" || unit === "bytes a run" || value >= 0) &&
      others.every((each) => Number.isFinite(each) && each > 0) &&
      times.every((each) => Number.isFinite(each) && each >= 0);
    if (!isPossible) throw new Error(`${bench}, ${what}: ${JSON.stringify({ value, limit, cpu, memory, eventLoop })}`);
  }
  return figures;
}
