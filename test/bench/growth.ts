import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runCommand } from "./command.ts";
import type { Ran, Spent } from "./command.ts";
import { configureCompany, ordinaryCompany, writeCompany } from "./company.ts";
import { exponentOf, machine, mebibytes, seconds, table, wholeNumber } from "./measure.ts";
import type { Point } from "./measure.ts";
import type { Figure } from "./results.ts";

/** What the exponents are at most. */
const goals = { time: 1.05, memory: 0.8 } as const;

const steps = ["read", "list", "plan", "preview", "apply", "verify", "export"] as const;
type Step = (typeof steps)[number];

/**
 * `npm run bench -- growth [--n 10000,30000,100000,300000,1000000] [--rounds 1]`: how time and memory of each stage of a run,
 * and of an export, grow with the number of users, as the exponent of that number: a straight line
 * through the logarithms. A first run fills the target; then one user in a hundred has another mail address, and
 * a second run, which is measured, changes that. Linux only.
 */
export async function growth(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      n: { type: "string", default: "10000,30000,100000,300000,1000000" },
      rounds: { type: "string", default: "1" },
    },
  });
  const sizes = values.n.split(",").map(wholeNumber);
  const measured: { readonly users: number; readonly spent: Record<Step, Spent> }[] = [];
  for (const users of sizes) {
    let best: Record<Step, Spent> | undefined;
    for (let round = 0; round < wholeNumber(values.rounds); round++) best = least(best, await measure(users));
    if (best !== undefined) measured.push({ users, spent: best });
  }
  const points = (step: Step, pick: (spent: Spent) => number): Point[] =>
    measured.map(({ users, spent }) => [users, pick(spent[step])]);
  // The kernel counts in hundredths of a second.
  const timesOf = (step: Step): Point[] => points(step, ({ cpu }) => Math.max(10, cpu));
  const memoriesOf = (step: Step): Point[] => points(step, ({ peak }) => peak);
  const line = (step: Step): string[] => {
    const last = measured.at(-1)?.spent[step];
    const time = exponentOf(timesOf(step));
    const memory = exponentOf(memoriesOf(step));
    return [
      step,
      ...measured.map(({ spent }) => seconds(spent[step].cpu)),
      seconds(last?.milliseconds),
      marked(time, goals.time),
      marked(lastExponent(timesOf(step)), goals.time),
      mebibytes(last?.peak ?? 0),
      marked(memory, goals.memory),
    ];
  };
  const count = (users: number): string => users.toLocaleString("en");
  const of = count(sizes.at(-1) ?? 0);
  console.log(`${machine()}.\n`);
  console.log(
    table(
      [
        "stage",
        ...sizes.map((users) => `CPU time of ${count(users)}`),
        `time of ${of}`,
        "exponent",
        "of the last step",
        `peak memory of ${of}`,
        "exponent",
      ],
      steps.map(line),
    ),
  );
  console.log(
    `Exponents are those of CPU time. The goals are ${goals.time} for time and ${goals.memory} for memory. Bold: beyond.`,
  );
  return steps.flatMap((step): Figure[] => {
    const last = measured.at(-1)?.spent[step];
    const what = `${step}, ${sizes.map(count).join(" to ")} users`;
    return [
      {
        what: `${step}, ${of} users`,
        value: last?.milliseconds ?? Number.NaN,
        unit: "ms",
        cpu: last?.cpu,
        memory: last?.peak,
      },
      { what: `${what}: growth of CPU time`, value: exponentOf(timesOf(step)), unit: "exponent", goal: goals.time },
      { what: `${what}: growth of memory`, value: exponentOf(memoriesOf(step)), unit: "exponent", goal: goals.memory },
    ];
  });
}

function marked(exponent: number, goal: number): string {
  return exponent > goal ? `**${exponent.toFixed(2)}**` : exponent.toFixed(2);
}

async function measure(users: number): Promise<Record<Step, Spent>> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const config = await configureCompany(folder);
    await writeCompany(folder, ordinaryCompany(users));
    say(users, "first run", await runCommand(config, ["apply", "--yes"]));
    const mail = (login: string, index: number): string => `${login}@${index % 100 === 0 ? "new." : ""}example.com`;
    await writeCompany(folder, ordinaryCompany(users, { mail }));
    const run = await runCommand(config, ["apply", "--yes"]);
    say(users, "second run", run);
    const exported = await runCommand(config, ["export", "all", "--to", join(folder, "exported")]);
    say(users, "export", exported);
    const { stages } = run;
    return Object.fromEntries(
      steps.map((step) => {
        const spent = step === "export" ? exported : stages[step];
        if (spent === undefined) throw new Error(`the run had no stage ${step}:\n${run.output}`);
        return [step, spent];
      }),
    ) as Record<Step, Spent>;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function say(users: number, what: string, { milliseconds, cpu, peak, stages }: Ran): void {
  const each = Object.entries(stages).map(
    ([stage, spent]) => `${stage} ${seconds(spent.cpu)} ${mebibytes(spent.peak)}`,
  );
  console.error(
    `${users}: ${what} ${seconds(milliseconds)} (CPU ${seconds(cpu)}; ${each.join(", ")}), ${mebibytes(peak)}`,
  );
}

/** What each step cost in the round in which it cost the least. */
function least(one: Record<Step, Spent> | undefined, other: Record<Step, Spent>): Record<Step, Spent> {
  if (one === undefined) return other;
  return Object.fromEntries(
    steps.map((step) => [step, one[step].cpu <= other[step].cpu ? one[step] : other[step]]),
  ) as Record<Step, Spent>;
}

/** That between the two largest sizes, where what does not depend on the size counts least. */
function lastExponent(points: readonly Point[]): number {
  return points.length < 2 ? Number.NaN : exponentOf(points.slice(-2));
}
