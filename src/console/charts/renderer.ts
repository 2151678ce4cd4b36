import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { getCompileCacheDir } from "node:module";
import { fileURLToPath } from "node:url";
import { UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Drawn, ToDraw } from "./drawing.ts";

/** Draws charts, in a process of its own: the library takes 80 MB and 50 ms for each, which nobody else should wait for. */
export interface Renderer {
  /**
   * @param spec Vega-Lite's
   * @returns SVG
   * @throws {UnavailableError} when it takes too long or the process is lost; the signal's reason
   */
  draw(spec: object, signal: AbortSignal): Promise<string>;
  close(): void;
}

/** How long the process stays without work, and how long a chart may take, in milliseconds. */
const times = { idle: 60_000, longest: 15_000 } as const;

/** What it gets of the environment, which may hold the service's secrets. */
const environment = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH"];

export function createRenderer({
  idle,
  longest,
}: { readonly idle: number; readonly longest: number } = times): Renderer {
  const queue = createQueue();
  let child: ChildProcess | undefined;
  let rest: NodeJS.Timeout | undefined;
  let lastId = 0;

  const end = (): void => {
    clearTimeout(rest);
    child?.kill("SIGKILL");
    child = undefined;
  };

  return {
    draw: (spec, signal) =>
      queue(async () => {
        clearTimeout(rest);
        if (child?.connected !== true) child = start();
        const of = child;
        try {
          return await drawIn(of, { id: ++lastId, spec }, longest);
        } catch (error) {
          if (child === of) end();
          throw error;
        } finally {
          rest = setTimeout(end, idle);
          rest.unref();
        }
      }, signal),
    close: end,
  };
}

function start(): ChildProcess {
  const kept = Object.fromEntries(environment.map((name) => [name, process.env[name]]));
  const child = fork(fileURLToPath(new URL("drawing.ts", import.meta.url)), [], {
    env: { ...kept, TZ: "UTC", NODE_COMPILE_CACHE: getCompileCacheDir() ?? process.env["NODE_COMPILE_CACHE"] },
    execArgv: [],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  // Whoever waits for a chart hears of it there.
  child.on("error", () => undefined);
  // It does not keep the program running.
  child.unref();
  child.channel?.unref();
  return child;
}

function drawIn(child: ChildProcess, task: ToDraw, longest: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const lost = (): void => {
    reject(new UnavailableError("the process that draws charts ended; try again"));
  };
  const late = setTimeout(() => {
    reject(new UnavailableError(`the chart took longer than ${longest / 1000} s to draw`));
  }, longest);
  const take = (drawn: Drawn): void => {
    if (drawn.id !== task.id) return;
    if ("svg" in drawn) resolve(drawn.svg);
    else reject(new Error(`the chart could not be drawn: ${drawn.error}`));
  };
  child.on("message", take).once("exit", lost).once("error", lost);
  child.send(task, (error) => {
    if (error !== null) lost();
  });
  return promise.finally(() => {
    clearTimeout(late);
    child.off("message", take).off("exit", lost).off("error", lost);
  });
}
