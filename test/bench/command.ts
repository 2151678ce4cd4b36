import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const rollcall = fileURLToPath(new URL("../../bin/rollcall.js", import.meta.url));

/** What something cost: times in milliseconds, that of all processors together, and the peak of the resident memory in bytes. */
export interface Spent {
  readonly milliseconds: number;
  readonly cpu: number;
  readonly peak: number;
}

/** A command of the program, as a process of its own that has the service in it. */
export interface Ran extends Spent {
  /** What it wrote to standard output. */
  readonly output: string;
  /** What each stage of its run cost, in their order. */
  readonly stages: Readonly<Record<string, Spent>>;
}

/** The stages as the log names them. */
const stageNames = /"stage":"(\w+)"/;

/**
 * Runs a command to its end. Linux only.
 * @throws {Error} with what it said, when it ends with another exit code than 0 or 2 (a plan has changes)
 */
export async function runCommand(config: string, command: readonly string[]): Promise<Ran> {
  const started = performance.now();
  const child = spawn(process.execPath, [rollcall, ...command, "--verbose", "--config", config], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close");
  const { pid } = child;
  const stages: Record<string, Spent> = {};
  let peak = 0;
  let cpu = 0;
  let current: { name: string; at: number; cpu: number; peak: number } | undefined;
  const look = async (): Promise<void> => {
    const now = await costOf(pid).catch(() => undefined);
    if (now === undefined) return;
    cpu = Math.max(cpu, now.cpu);
    peak = Math.max(peak, now.peak);
    if (current !== undefined) current.peak = Math.max(current.peak, now.peak);
  };
  const end = (at: number): void => {
    if (current === undefined) return;
    const { name, at: began, cpu: before, peak } = current;
    const so = stages[name] ?? { milliseconds: 0, cpu: 0, peak: 0 };
    const spent = { milliseconds: so.milliseconds + at - began, cpu: so.cpu + cpu - before };
    stages[name] = { ...spent, peak: Math.max(so.peak, peak) };
    current = undefined;
  };
  const said: string[] = [];
  const reading = (async () => {
    for await (const line of createInterface({ input: child.stderr })) {
      const name = stageNames.exec(line)?.[1];
      if (name === undefined) {
        said.push(line);
        continue;
      }
      const at = performance.now();
      await look();
      end(at);
      await writeFile(`/proc/${pid}/clear_refs`, "5").catch(() => undefined);
      current = { name, at, cpu, peak: 0 };
    }
  })();
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const over = new AbortController();
  const looking = (async () => {
    while (!over.signal.aborted) {
      await look();
      await sleep(20);
    }
  })();
  await closed;
  const milliseconds = performance.now() - started;
  over.abort();
  await Promise.all([reading, looking]);
  end(performance.now());
  if (child.exitCode !== 0 && child.exitCode !== 2)
    throw new Error(
      `rollcall ${command.join(" ")} ended with ${child.exitCode ?? child.signalCode}:\n${said.slice(-20).join("\n")}\n${output.slice(0, 5000)}`,
    );
  return { milliseconds, cpu, peak, output, stages };
}

/** Processor time in milliseconds, which the kernel counts in hundredths of a second, and the peak in bytes. */
async function costOf(pid: number | undefined): Promise<{ cpu: number; peak: number }> {
  const [, fields = ""] = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ");
  const times = fields.split(" ").slice(11, 15).map(Number);
  const [, kibibytes = "0"] = /^VmHWM:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
  return { cpu: times.reduce((sum, time) => sum + time, 0) * 10, peak: Number(kibibytes) * 1024 };
}
