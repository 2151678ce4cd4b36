import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { table } from "./measure.ts";

/** One thing that a bench has measured. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: Unit;
  /** What something else takes for the same work, in the same unit and the same run. */
  readonly limit?: { readonly by: string; readonly value: number } | undefined;
  /** The most that is wanted: as a multiple of the limit where there is one, otherwise in the unit. */
  readonly goal?: number | undefined;
  /** The time of all processors together, in milliseconds. */
  readonly cpu?: number | undefined;
  /** The peak of the resident memory, in bytes. */
  readonly memory?: number | undefined;
  /** How late the timers of the event loop were, in milliseconds: of a hundred times, the worst but one. */
  readonly eventLoop?: number | undefined;
}

type Unit = "ms" | "bytes" | "bytes a run" | "count" | "a second" | "exponent";

/** What one bench has measured, where and when. */
interface Measured {
  readonly date: string;
  readonly commit: string;
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
  /** Bytes. */
  readonly memory: number;
  /** How many processes wanted a processor at the end, on average over five minutes. */
  readonly load: number;
  readonly figures: readonly Figure[];
}

type Results = Record<string, Measured>;

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const json = pathOf("../../docs/benchmarks.json");
const page = pathOf("../../docs/benchmarks.md");
const [begin, end] = ["<!-- figures -->", "<!-- end of figures -->"];

/** Writes what a bench has measured into docs/benchmarks.json and the tables of docs/benchmarks.md, in place of what it measured before. */
export async function writeResults(bench: string, figures: readonly Figure[]): Promise<void> {
  const results = JSON.parse(await readFile(json, "utf8").catch(() => "{}")) as Results;
  results[bench] = { ...(await whereAndWhen()), figures: figures.map(rounded) };
  const sorted = Object.fromEntries(Object.entries(results).sort(([one], [other]) => (one < other ? -1 : 1)));
  await writeFile(json, `${JSON.stringify(sorted, undefined, 2)}\n`);
  const text = await readFile(page, "utf8");
  const [before, after] = [text.indexOf(begin), text.indexOf(end)];
  if (before === -1 || after === -1) throw new Error(`${page} has no lines ${begin} and ${end}`);
  await writeFile(page, `${text.slice(0, before)}${begin}\n\n${tablesOf(sorted)}\n${text.slice(after)}`);
  await promisify(execFile)(pathOf("../../node_modules/.bin/oxfmt"), [json, page]);
}

async function whereAndWhen(): Promise<Omit<Measured, "figures">> {
  const { stdout } = await promisify(execFile)("git", ["rev-parse", "--short=12", "HEAD"], { cwd: pathOf(".") }).catch(
    () => ({ stdout: "" }),
  );
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: stdout.trim(),
    node: process.version,
    cpu: cpus()[0]?.model.trim() ?? "",
    cores: availableParallelism(),
    memory: totalmem(),
    load: Number((loadavg()[1] ?? 0).toFixed(1)),
  };
}

/** Four digits say what there is to say. */
function rounded(figure: Figure): Figure {
  const short = (value: number): number => Number(value.toPrecision(4));
  return JSON.parse(
    JSON.stringify(figure, (_, value: unknown) => (typeof value === "number" ? short(value) : value)),
  ) as Figure;
}

function tablesOf(results: Results): string {
  return Object.entries(results)
    .map(([bench, { date, commit, node, cpu, cores, memory, load, figures }]) => {
      const where = `${cores} cores (${cpu}), ${Math.round(memory / 1024 ** 3)} GiB, Node ${node}`;
      return `### ${bench}\n\n${date} at ${commit}, ${where}; ${load} processes wanted them\n\n${table(header, figures.map(row))}`;
    })
    .join("\n");
}

const header = ["what", "", "value", "beside", "ratio", "goal", "CPU time", "peak memory", "event loop p99"];

function row({ what, value, unit, limit, goal, cpu, memory, eventLoop }: Figure): string[] {
  const ratio = limit === undefined ? undefined : value / limit.value;
  const isMissed = goal !== undefined && (ratio ?? value) > goal;
  const wanted = goal === undefined ? "" : ratio === undefined ? inUnit(goal, unit) : String(goal);
  return [
    what,
    isMissed ? "✗" : goal === undefined ? "" : "✓",
    inUnit(value, unit),
    limit === undefined ? "" : `${inUnit(limit.value, unit)} (${limit.by})`,
    ratio === undefined ? "" : ratio.toFixed(2),
    wanted,
    cpu === undefined ? "" : inUnit(cpu, "ms"),
    memory === undefined ? "" : inUnit(memory, "bytes"),
    eventLoop === undefined ? "" : inUnit(eventLoop, "ms"),
  ];
}

function inUnit(value: number, unit: Unit): string {
  if (unit === "exponent") return value.toFixed(2);
  if (unit === "count") return Number(value.toPrecision(4)).toLocaleString("en");
  if (unit === "bytes a run") return `${Math.round(value).toLocaleString("en")} bytes`;
  if (unit === "a second") return `${Math.round(value).toLocaleString("en")} a second`;
  if (unit === "ms") return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${Number(value.toPrecision(3))} ms`;
  return value >= 1024 ** 2 ? `${(value / 1024 ** 2).toFixed(0)} MiB` : `${Number(value.toPrecision(3))} bytes`;
}
