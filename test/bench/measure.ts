import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** Runs a script of this folder as a process of its own. Its last line is its result, as JSON. */
export async function runApart<Result>(script: string, request: object): Promise<Result> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [path, JSON.stringify(request)]);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Result;
}

/** The middle of several measurements. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle) - 1] ?? Number.NaN)) / 2;
}

/** What something of a size took. */
export type Point = readonly [size: number, value: number];

/** The slope of the straight line through the logarithms with the least squares: 1 grows as fast as the size does. */
export function exponentOf(points: readonly Point[]): number {
  const logarithms = points.map(([size, value]) => [Math.log(size), Math.log(value)] as const);
  const mean = (pick: 0 | 1): number => logarithms.reduce((sum, point) => sum + point[pick], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const above = logarithms.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0);
  return above / logarithms.reduce((sum, [a]) => sum + (a - x) ** 2, 0);
}

/** Where and when: `2026-05-17, Node v26.10.0, 2 × Some CPU, 8 GiB`. */
export function machine(): string {
  const model = cpus()[0]?.model.trim() ?? "";
  const memory = `${Math.round(totalmem() / 1024 ** 3)} GiB of memory`;
  const cores = `${availableParallelism()} cores${model === "" || model === "unknown" ? "" : ` (${model})`}`;
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${cores}, ${memory}`;
}

/** A Markdown table; numbers are on the right. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = header.map((_, column) => (column < 2 ? "---" : "--:"));
  return [header, rule, ...rows].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

/** `1.234 s`; nothing for nothing. */
export function seconds(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "" : `${(milliseconds / 1000).toFixed(3)} s`;
}

/** `12.3 MiB`, from 100 on without a fraction. */
export function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(bytes < 100 * 1024 ** 2 ? 1 : 0)} MiB`;
}

/** An option of a command line. */
export function wholeNumber(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`expected a whole number above 0, not ${JSON.stringify(text)}`);
  return Number(text);
}

/**
 * The time that the processors have spent on a process, and on those of its children that have ended, in milliseconds; the
 * kernel counts it in hundredths of a second. Linux only.
 */
export async function cpuTimes(pid: number | "self"): Promise<{ readonly own: number; readonly ended: number }> {
  const [, fields = ""] = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ");
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields
    .split(" ")
    .slice(11, 15)
    .map((ticks) => Number(ticks) * 10);
  return { own: user + system, ended: endedUser + endedSystem };
}

/** A process and its children. Linux only. */
export async function withChildren(pid: number): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return [pid, ...children.split(" ").filter(Boolean).map(Number)];
}

/** The time that the processors have spent on a process and all its children, in milliseconds. */
export async function cpuOfAll(pid: number): Promise<number> {
  let sum = 0;
  for (const each of await withChildren(pid)) {
    // One that has ended meanwhile counts with its parent from then on.
    const { own, ended } = await cpuTimes(each).catch((error: unknown) => {
      if (each === pid) throw error;
      return { own: 0, ended: 0 };
    });
    sum += own + ended;
  }
  return sum;
}
