import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { configureCompany, ordinaryCompany, times, writeCompany } from "./company.ts";
import type { Company } from "./company.ts";
import { runCommand } from "./command.ts";
import type { Ran } from "./command.ts";
import { exponentOf, machine, mebibytes, seconds, table } from "./measure.ts";
import type { Point } from "./measure.ts";
import type { Figure } from "./results.ts";

/** A directory that is not like others. */
interface Shape {
  readonly title: string;
  /** How much there is of it, in words. */
  readonly unit: string;
  /** The size that must work. */
  readonly size: number;
  /** What is in the target before; absent: nothing. */
  readonly before?: (size: number) => Company;
  readonly after: (size: number) => Company;
}

const user = (index: number) => {
  const login = `u${String(index).padStart(7, "0")}`;
  return [`e${index}`, login, `Ada Lovelace ${index}`, `${login}@example.com`] as const;
};
const group = (index: number) => [`g${index}`, `Team ${index}`] as const;
const prefix = "the-same-two-hundred-characters-".repeat(7).slice(0, 200);

const shapes: Readonly<Record<string, Shape>> = {
  "large-group": {
    title: "one group with many members",
    unit: "members",
    size: 500_000,
    after: (size) => ({
      users: times(size, user),
      groups: times(1, group),
      memberships: times(size, (index) => ["g0", `e${index}`, "user"] as const),
    }),
  },
  "many-groups": {
    title: "one user in many groups",
    unit: "groups",
    size: 10_000,
    after: (size) => ({
      users: times(1, user),
      groups: times(size, group),
      memberships: times(size, (index) => [`g${index}`, "e0", "user"] as const),
    }),
  },
  deep: {
    title: "groups nested deep, ten users in each",
    unit: "levels",
    size: 200,
    after: (size) => ({
      users: times(size * 10, user),
      groups: times(size, group),
      memberships: (function* () {
        for (let index = 1; index < size; index++) yield [`g${index - 1}`, `g${index}`, "group"] as const;
        for (let index = 0; index < size * 10; index++) yield [`g${index % size}`, `e${index}`, "user"] as const;
      })(),
    }),
  },
  cycle: {
    title: "groups in a cycle, a user in each",
    unit: "groups",
    size: 50_000,
    after: (size) => ({
      users: times(size, user),
      groups: times(size, group),
      memberships: (function* () {
        for (let index = 0; index < size; index++) yield [`g${index}`, `g${(index + 1) % size}`, "group"] as const;
        for (let index = 0; index < size; index++) yield [`g${index}`, `e${index}`, "user"] as const;
      })(),
    }),
  },
  prefix: {
    title: "names with the same 200 characters first",
    unit: "users",
    size: 100_000,
    after: (size) => {
      const { users, memberships } = ordinaryCompany(size, {});
      return {
        users: (function* () {
          for (const [id, login, name, mail] of users) yield [id, prefix + login, prefix + name, mail] as const;
        })(),
        groups: times(Math.max(10, Math.floor(size / 50)), (index) => [`g${index}`, `${prefix}${index}`] as const),
        memberships,
      };
    },
  },
  first: {
    title: "a first sync into an empty service",
    unit: "users",
    size: 1_000_000,
    after: (size) => ordinaryCompany(size),
  },
  "renamed-groups": {
    title: "every group renamed",
    unit: "users",
    size: 100_000,
    before: (size) => ordinaryCompany(size),
    after: (size) => ordinaryCompany(size, { title: (index) => `Crew ${index}` }),
  },
  mails: {
    title: "every mail address changed",
    unit: "users",
    size: 300_000,
    before: (size) => ordinaryCompany(size),
    after: (size) => ordinaryCompany(size, { mail: (login) => `${login}@new.example.com` }),
  },
};

/** How much smaller the first of the two sizes is. */
const step = 4;

/**
 * `npm run bench -- shapes [--only large-group,cycle] [--scale 1] [--keep FOLDER]`: directories that are not like others, each in two
 * sizes, planned, applied, and planned again, when nothing may be left to change. How time and memory grow
 * from one size to the other is printed as the exponent of the size. `--scale 0.01` makes all of them smaller. `--keep`
 * writes the text of each plan there. Linux only.
 */
export async function runShapes(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: { only: { type: "string" }, scale: { type: "string", default: "1" }, keep: { type: "string" } },
  });
  const names = values.only?.split(",") ?? Object.keys(shapes);
  const rows: string[][] = [];
  const figures: Figure[] = [];
  for (const name of names) {
    const shape = shapes[name];
    if (shape === undefined) throw new Error(`no shape is called ${name}: ${Object.keys(shapes).join(", ")}`);
    const large = Math.max(2 * step, Math.round(shape.size * Number(values.scale)));
    const small = await measure(name, shape, Math.round(large / step), values.keep);
    const measured = await measure(name, shape, large, values.keep);
    rows.push(...rowsOf(shape, small, measured));
    figures.push(...figuresOf(shape, small, measured));
  }
  console.log(`${machine()}.\n`);
  console.log(
    table(["directory", "size", "command", "time", "CPU time", "exponent", "peak memory", "exponent", "report"], rows),
  );
  return figures;
}

interface Measured {
  readonly size: number;
  readonly plan: Ran;
  readonly apply: Ran;
  readonly again: Ran;
}

async function measure(name: string, shape: Shape, size: number, keep: string | undefined): Promise<Measured> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const config = await configureCompany(folder);
    if (shape.before !== undefined) {
      await writeCompany(folder, shape.before(size));
      await runCommand(config, ["apply", "--yes"]);
    }
    await writeCompany(folder, shape.after(size));
    const plan = await runCommand(config, ["plan"]);
    say(name, size, "plan", plan);
    if (keep !== undefined) {
      await mkdir(keep, { recursive: true });
      await writeFile(join(keep, `${name}-${size}.txt`), plan.output);
    }
    const apply = await runCommand(config, ["apply", "--yes"]);
    say(name, size, "apply", apply);
    const again = await runCommand(config, ["plan"]);
    say(name, size, "plan again", again);
    if (!/no change/i.test(again.output)) throw new Error(`${name}: a second plan has changes:\n${again.output}`);
    return { size, plan, apply, again };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function say(name: string, size: number, what: string, { milliseconds, cpu, peak, stages, output }: Ran): void {
  const each = Object.entries(stages).map(([stage, spent]) => `${stage} ${seconds(spent.cpu)}`);
  console.error(
    `${name} ${size}: ${what} ${seconds(milliseconds)} (CPU ${seconds(cpu)}: ${each.join(", ")}), ${mebibytes(peak)}, ${output.length} characters`,
  );
}

/** The exponent of CPU time or of memory from one size to the other. */
function exponentBetween(small: Measured, large: Measured, of: Command, pick: (ran: Ran) => number): number {
  return exponentOf([small, large].map((each): Point => [each.size, pick(each[of])]));
}

const commands = ["plan", "apply", "again"] as const;
type Command = (typeof commands)[number];

const words: Record<Command, string> = { plan: "plan", apply: "apply", again: "plan, nothing to change" };

/** As much as n log n grows between the two sizes. */
function goalOf(small: Measured, large: Measured): number {
  return exponentOf([small, large].map(({ size }): Point => [size, size * Math.log(size)]));
}

function figuresOf({ title, unit }: Shape, small: Measured, large: Measured): Figure[] {
  const goal = goalOf(small, large);
  return commands.flatMap((of): Figure[] => {
    const { milliseconds: value, cpu, peak: memory } = large[of];
    const what = `${title}, ${large.size.toLocaleString("en")} ${unit}: ${words[of]}`;
    const exponent = (pick: (ran: Ran) => number): number => exponentBetween(small, large, of, pick);
    return [
      { what, value, unit: "ms", cpu, memory },
      { what: `${what}, growth of CPU time`, value: exponent((ran) => ran.cpu), unit: "exponent", goal },
      { what: `${what}, growth of memory`, value: exponent((ran) => ran.peak), unit: "exponent", goal },
    ];
  });
}

function rowsOf({ title, unit }: Shape, small: Measured, large: Measured): string[][] {
  const exponent = (pick: (ran: Ran) => number, of: Command): string =>
    exponentBetween(small, large, of, pick).toFixed(2);
  return commands.map((of) => [
    title,
    `${large.size.toLocaleString("en")} ${unit}`,
    words[of],
    seconds(large[of].milliseconds),
    seconds(large[of].cpu),
    exponent(({ cpu }) => cpu, of),
    mebibytes(large[of].peak),
    exponent(({ peak }) => peak, of),
    `${large[of].output.split("\n").length - 1} lines`,
  ]);
}
