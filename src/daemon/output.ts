import type { Writable } from "node:stream";
import { unwritable } from "#files/disk.ts";
import { redact } from "#redact.ts";
import { HeldError, errorDocument } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import { printable, printableJson, visible, visibleLines } from "#text.ts";
import { forCaller, useLocalTime } from "#times.ts";

/** The exit codes of all commands. */
export const exitCodes = { done: 0, failed: 1, changes: 2, held: 3 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** What is written, by default lines or, with `--json`, JSON. Data goes to a file or a pipe as it is. */
export type Content = "lines" | "json" | "data";

/** The output of a command. */
export interface Output {
  /** True: standard output is one JSON document. */
  readonly json: boolean;
  /** Whether standard output is a terminal with colours. */
  readonly colour: boolean;
  /** Whether a person at a terminal sees progress and can answer questions. */
  readonly interactive: boolean;
  /** Whether standard output is a terminal and shows text: it has `width` columns. */
  readonly terminal: boolean;
  /** The width of the terminal in columns. */
  readonly width: number;
  /** Writes the result, with hidden characters made visible. Waits while the reader is slow. */
  readonly write: (text: string, content?: Content) => Promise<void>;
  /** Says something beside the result, on standard error; commands in it are shown as this program was called. */
  readonly say: (line: string) => void;
  /** Replaces the progress line; without a text, removes it. */
  readonly progress: (line?: string) => void;
}

/** Writes to standard output and standard error of this process. */
export function openOutput(options: { json: boolean }): Output {
  const { stdout, stderr } = process;
  const terminal = stdout.isTTY && !options.json;
  useLocalTime(terminal);
  const interactive = stdout.isTTY && stderr.isTTY && process.stdin.isTTY && !options.json;
  for (const stream of [stdout, stderr]) {
    // Only once: there are several outputs when the command line itself is wrong.
    if (!stream.listeners("error").includes(told)) stream.on("error", told);
  }
  let shown = false;
  const progress = (line?: string): void => {
    // To standard error: standard input and output may be pipes with data.
    if (!stderr.isTTY || options.json) return;
    if (shown) stderr.write("\r\u001B[K");
    shown = line !== undefined;
    if (line !== undefined) stderr.write(visible(line).slice(0, (stderr.columns || 80) - 1));
  };
  return {
    json: options.json,
    colour: stdout.isTTY && !options.json && stdout.hasColors(),
    interactive,
    terminal,
    width: stdout.columns || 100,
    write: (text, content = options.json ? "json" : "lines") => {
      progress();
      if (content === "data" && !stdout.isTTY) return writeAll(stdout, text);
      return writeAll(stdout, content === "json" ? printableJson(text) : printable(text));
    },
    say: (line) => {
      progress();
      stderr.write(`${printable(redact(forCaller(line)))}\n`);
    },
    progress,
  };
}

function writeAll(stream: Writable, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (error === null || error === undefined || isGone(error)) resolve();
      else reject(unwritable("standard output", error));
    });
  });
}

/** Whether the reader is gone, as in `rollcall plan | head`, or the terminal closed. The command still finishes its work. */
function isGone(error: Error): boolean {
  return "code" in error && ["EPIPE", "EIO", "ERR_STREAM_DESTROYED"].includes(String(error.code));
}

/** `writeAll` tells its caller; what standard error cannot take, nobody can be told. */
function told(): void {
  // Without a listener, the error would end the process.
}

/** An error for a person: the message, then each problem on a line of its own. */
export function describeError(error: unknown): string {
  return describeFailure(errorDocument(error));
}

/** Errors have no colours: what looks like one is foreign. */
export function describeFailure({ message, problems, next }: ErrorDocument): string {
  // A single problem may be the message itself.
  const further = problems.filter((problem) => problem !== message);
  const advice =
    next === undefined
      ? []
      : [`find out why first; if the changes are intended, this applies exactly this plan: \`${next}\``];
  return [message, ...[...further, ...advice].map((problem) => `  ${problem}`)].map(visibleLines).join("\n");
}

/** The exit code of a command that failed with this error. */
export function exitCodeOf(error: unknown): ExitCode {
  return error instanceof HeldError ? exitCodes.held : exitCodes.failed;
}

/** The exit code of a command that did several things: the worst, from failed over held and changes to done. */
export function worstOf(codes: readonly ExitCode[]): ExitCode {
  const order = [exitCodes.failed, exitCodes.held, exitCodes.changes];
  return order.find((code) => codes.includes(code)) ?? exitCodes.done;
}

/** The names a configuration has, for a message about one it does not have. */
export function listOf(names: readonly string[]): string {
  return names.length === 0 ? "the configuration has none" : `the configuration has ${names.join(", ")}`;
}
