import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { startRollcall } from "./rollcall.ts";
import type { Ended } from "./rollcall.ts";

/** A message to the process that runs commands. */
export interface CommandRequest {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Written to both streams when the command has ended. */
  readonly mark: string;
}

export interface CommandAnswer {
  readonly code: number;
}

const program = fileURLToPath(new URL("command-process.ts", import.meta.url));

/** One process for the commands of a test file: a command in a process of its own spends most of its time starting. */
let shared: ChildProcess | undefined;
let isBusy = false;

/**
 * Runs `rollcall` to its end, as a user would, in a process that other commands of this file have used before. Beside
 * another command, and for what signals, terminals or standard input do, `startRollcall` gives it a process of its own.
 */
export async function rollcall(
  args: readonly string[],
  options: { cwd?: string | undefined; env?: NodeJS.ProcessEnv | undefined } = {},
): Promise<Ended> {
  if (isBusy) return startRollcall(args, options).ended;
  isBusy = true;
  try {
    shared ??= spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "pipe", "ipc"] });
    return await runIn(shared, args, options);
  } finally {
    isBusy = false;
  }
}

function runIn(
  child: ChildProcess,
  args: readonly string[],
  { cwd = process.cwd(), env }: { cwd?: string | undefined; env?: NodeJS.ProcessEnv | undefined },
): Promise<Ended> {
  const mark = `\0${randomUUID()}\0`;
  const output = { stdout: "", stderr: "" };
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  let code: number | undefined;
  const finish = (): void => {
    if (code === undefined || !output.stdout.endsWith(mark) || !output.stderr.endsWith(mark)) return;
    const [stdout, stderr] = [output.stdout, output.stderr].map((text) => text.slice(0, -mark.length));
    resolve({ code, signal: null, stdout: stdout ?? "", stderr: stderr ?? "" });
  };
  const collect = (stream: "stdout" | "stderr") => (text: string) => {
    output[stream] += text;
    finish();
  };
  const listeners = { stdout: collect("stdout"), stderr: collect("stderr") };
  const onMessage = (answer: CommandAnswer): void => {
    ({ code } = answer);
    finish();
  };
  const onExit = (status: number | null, signal: NodeJS.Signals | null): void => {
    shared = undefined;
    resolve({ code: status, signal, ...output });
  };
  for (const stream of ["stdout", "stderr"] as const) child[stream]?.setEncoding("utf8").on("data", listeners[stream]);
  child.on("message", onMessage).once("error", reject).once("exit", onExit);
  const complete = Object.fromEntries(
    Object.entries({ ...process.env, NO_COLOR: "1", ROLLCALL_CONFIG: undefined, ...env }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  child.send({ args, env: complete, cwd, mark } satisfies CommandRequest);
  return promise.finally(() => {
    for (const stream of ["stdout", "stderr"] as const) child[stream]?.off("data", listeners[stream]);
    child.off("message", onMessage).off("error", reject).off("exit", onExit);
  });
}
