import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../../bin/rollcall.js", import.meta.url));

/** Keys that a person presses. */
export const keys = { enter: "\r", down: "\u001B[B", interrupt: "\u0003" } as const;

/** A command in a terminal of its own. */
export interface Terminal {
  /** Everything it showed, without colours and cursor movements. */
  shown(): string;
  /** The same with them. */
  raw(): string;
  /** Waits for a text in what was shown since the last wait, then presses keys, if any. */
  answer(text: string, pressed: string): Promise<void>;
  /** Closes it, as a person who leaves does. */
  close(): void;
  readonly ended: Promise<number | null>;
}

/** Runs `rollcall` in a pseudo-terminal made by `script`, which every Debian has. */
export function atTerminal(
  args: readonly string[],
  options: { cwd: string; env?: NodeJS.ProcessEnv; columns?: number },
): Terminal {
  // A shell that stayed between would receive Ctrl-C too, and some then report 130 whatever the command's exit code was.
  const rollcall = `exec ${[process.execPath, main, ...args].map((each) => `'${each}'`).join(" ")}`;
  const { columns } = options;
  const command = columns === undefined ? rollcall : `stty cols ${columns}; ${rollcall}`;
  const child = spawn("script", ["-qefc", command, "/dev/null"], {
    cwd: options.cwd,
    env: {
      ...process.env,
      ROLLCALL_CONFIG: undefined,
      TERM: "xterm",
      COLUMNS: "200",
      CI: undefined,
      NO_COLOR: undefined,
      ...options.env,
    },
  });
  child.stdin.on("error", () => undefined);
  let raw = "";
  let from = 0;
  let look: (() => void) | undefined;
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      raw += text;
      look?.();
    });
  }
  // eslint-disable-next-line no-control-regex -- that is what a terminal is sent
  const shown = (): string => raw.replaceAll(/\u001B\[[\d;?]*[A-Za-z]/g, "");
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject).once("close", resolve);
  });
  return {
    shown,
    raw: () => raw,
    ended,
    close: () => {
      child.kill("SIGKILL");
    },
    answer: async (text, pressed) => {
      await new Promise<void>((resolve, reject) => {
        look = () => {
          const at = shown().indexOf(text, from);
          if (at < 0) return;
          from = at + text.length;
          look = undefined;
          resolve();
        };
        look();
        void ended.then(() => reject(new Error(`it ended without showing ${text}:\n${shown()}`)));
      });
      if (pressed === "") return;
      child.stdin.write(pressed);
      // What is shown from here on is the response.
      from = shown().length;
    },
  };
}
