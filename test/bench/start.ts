import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine, mebibytes, median, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

/** A way to run the program, and what of it is installed. */
interface Way {
  readonly title: string;
  readonly call: readonly string[];
}

const root = fileURLToPath(new URL("../../", import.meta.url));
/** What they may take, in milliseconds. */
const commands = { version: undefined, status: 300, runs: 300, plan: 600 } as const;

/**
 * `npm run bench -- start [--rounds 7] [--release FOLDER]`: how long commands take in a folder with the sample company, from a
 * checkout; and, with what `npm run release` has made, from the installed package and the executable, the sizes
 * of what is released, and the executable's first start. Beside each: `node --eval 0`.
 */
export async function start(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: { rounds: { type: "string", default: "7" }, release: { type: "string" } },
  });
  const rounds = wholeNumber(values.rounds);
  const folder = mkdtempSync(join(tmpdir(), "rollcall-bench-"));
  try {
    const checkout: Way = { title: "checkout", call: [process.execPath, join(root, "bin/rollcall.js")] };
    const { ways, figures } =
      values.release === undefined ? { ways: [], figures: [] } : released(resolve(values.release), folder);
    const empty = median(Array.from({ length: rounds }, () => time([process.execPath, "--eval", "0"], folder)));
    for (const { title, call } of [checkout, ...ways]) {
      const company = mkdtempSync(join(folder, "company-"));
      time([...call, "init", "--sample"], company);
      for (const [command, goal] of Object.entries(commands)) {
        time([...call, command], company);
        const took = median(Array.from({ length: rounds }, () => time([...call, command], company)));
        const limit = goal === undefined ? { by: "Node.js alone", value: empty } : undefined;
        figures.push({ what: `${title}: ${command}`, value: took, unit: "ms", limit, goal });
      }
    }
    console.log(`${machine()}.\n`);
    const rows = figures.map(({ what, value, unit }) => [what, unit === "ms" ? seconds(value) : mebibytes(value)]);
    console.log(table(["what", "value"], rows));
    return figures;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Installs the package of a release, and starts its executable for the first time. */
function released(release: string, folder: string): { readonly ways: Way[]; readonly figures: Figure[] } {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const archive = join(release, `rollcall-${version}.tgz`);
  const executable = join(release, `rollcall-${version}-linux-${process.arch}`);
  const deb = join(release, `rollcall_${version}_${process.arch === "x64" ? "amd64" : process.arch}.deb`);
  process.env["ROLLCALL_CACHE"] = join(folder, "cache");
  const first = time([executable, "version"], folder);
  execFileSync("npm", ["install", "--global", "--prefix", join(folder, "prefix"), "--prefer-offline", archive]);
  return {
    ways: [
      { title: "package", call: [join(folder, "prefix/bin/rollcall")] },
      { title: "executable", call: [executable] },
    ],
    figures: [
      { what: "package: size", value: statSync(archive).size, unit: "bytes", goal: 5_000_000 },
      { what: "package for Debian: size", value: statSync(deb).size, unit: "bytes" },
      { what: "executable: size", value: statSync(executable).size, unit: "bytes" },
      { what: "executable: first start", value: first, unit: "ms" },
    ],
  };
}

/** How long a command takes, in milliseconds. A plan with changes ends with 2. */
function time([program = "", ...args]: readonly string[], cwd: string): number {
  const began = performance.now();
  const { status, stderr } = spawnSync(program, args, { cwd, stdio: ["ignore", "ignore", "pipe"], encoding: "utf8" });
  if (status !== 0 && status !== 2) throw new Error(`${program} ${args.join(" ")} ended with ${status}: ${stderr}`);
  return performance.now() - began;
}
