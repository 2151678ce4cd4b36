import { causes } from "./causes.ts";
import { consolePages } from "./console.ts";
import { engines } from "./engines.ts";
import { failover } from "./failover.ts";
import { idle } from "./idle.ts";
import { ldap } from "./ldap.ts";
import { load } from "./load.ts";
import { pinboards } from "./pinboard.ts";
import { replicas } from "./replicas.ts";
import { sync } from "./sync.ts";
import { unchanged } from "./unchanged.ts";

/** `npm run bench -- NAME [options]`: each bench prints a Markdown table for docs/benchmarks.md to standard output. */
const benches: Record<string, (args: readonly string[]) => Promise<void>> = {
  causes,
  console: consolePages,
  engines,
  failover,
  idle,
  ldap,
  load,
  postgres: replicas,
  sync,
  unchanged,
  pinboard: pinboards,
};

const [name = "", ...args] = process.argv.slice(2);
const bench = benches[name];
if (bench === undefined) {
  console.error(`usage: npm run bench -- ${Object.keys(benches).join(" | ")} [options]`);
  process.exitCode = 1;
} else {
  await bench(args);
}
