import { spawn } from "node:child_process";
import type { ChildProcess, ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/**
 * Runs a program to its end.
 * @returns what it printed
 * @throws {Error} with its standard error if it fails
 */
export async function runTool(
  program: string,
  args: readonly string[],
  input: string | AsyncIterable<string>,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], env });
  const failed = once(child, "error").then(([error]) => Promise.reject(error as Error));
  // A program that ends before it has read everything explains that itself.
  const written = pipeline(Readable.from(typeof input === "string" ? [input] : input), child.stdin).catch(() => {});
  const ended = once(child, "close");
  const [output, problems] = await Promise.race([Promise.all([text(child.stdout), text(child.stderr)]), failed]);
  await written;
  const [code] = (await ended) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${problems.slice(0, 2_000)}`);
  return output;
}

const compileCache = fileURLToPath(new URL("../../node_modules/.cache/compile", import.meta.url));

/**
 * Runs a program of the tests with Node. The compile cache is shared with `rollcall` and other such programs.
 * @param program the URL of its file
 * @param flags for Node itself
 */
export function spawnProgram(
  program: URL,
  args: readonly string[],
  flags: readonly string[] = [],
): ChildProcessWithoutNullStreams {
  const env = { ...process.env, NODE_COMPILE_CACHE: compileCache };
  return spawn(process.execPath, [...flags, fileURLToPath(program), ...args], { env });
}

/** A server process of a test. */
export interface Daemon {
  readonly process: ChildProcess;
  /**
   * Waits until the probe succeeds.
   * @throws {Error} with what the program printed if it ends first, or the probe's error if that never succeeds
   */
  ready(probe: () => Promise<unknown>): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** How long a server may take to answer, in milliseconds. */
const patience = 60_000;

/** Runs a server in the foreground until it is killed or this process ends, even by a crash. */
export function spawnDaemon(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Daemon {
  const withParent = ["--pdeathsig", "KILL", program];
  const child = spawn("setpriv", [...withParent, ...args], { stdio: ["ignore", "ignore", "pipe"], env });
  const problems = text(child.stderr);
  const ended = once(child, "exit");
  ended.catch(() => undefined);
  const running = (): boolean => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  return {
    process: child,
    async ready(probe) {
      let said: unknown;
      for (const end = Date.now() + patience; running() && Date.now() < end;) {
        const answered = await probe().then(
          () => true,
          (error: unknown) => {
            said = error;
            return false;
          },
        );
        // The answer may come from another server that took the port first.
        if (answered && running()) return;
        await delay(20);
      }
      if (running()) throw new Error(`${program} does not answer`, { cause: said });
      throw new Error(`${program} did not start: ${(await problems).slice(-2_000)}`);
    },
    async kill() {
      child.kill("SIGKILL");
      if (running()) await ended;
    },
  };
}

/** Two ports of 127.0.0.1 that are currently free. */
export async function freePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()];
  for (const server of servers) await once(server.listen(0, "127.0.0.1"), "listening");
  const [one, two] = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return [one ?? 0, two ?? 0];
}

/** A port of 127.0.0.1 that is currently free. */
export async function freePort(): Promise<number> {
  const [port] = await freePorts();
  return port;
}

/** The established (01), opening (02) and half-closed (08) connections whose other end is one of these ports. */
export async function connectionsTo(ports: readonly number[]): Promise<number> {
  const tables = await Promise.all(
    ["/proc/net/tcp", "/proc/net/tcp6"].map((path) => readFile(path, "latin1").catch(() => "")),
  );
  const rows = tables.flatMap((table) => table.split("\n").slice(1));
  return rows.filter((row) => {
    const [, remotePort = "", state = ""] = /^\s*\d+: \S+ \S+:([0-9A-F]{4}) ([0-9A-F]{2})/.exec(row) ?? [];
    return ["01", "02", "08"].includes(state) && ports.includes(Number.parseInt(remotePort, 16));
  }).length;
}
