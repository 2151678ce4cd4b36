import pino from "pino";
import type { Logger } from "pino";
import { asCalled } from "#commands.ts";
import { redact } from "#redact.ts";
import { printable, printableJson, visibleLines } from "#text.ts";

export interface LogOptions {
  readonly level: "silent" | "info" | "debug";
  /** The file descriptor: 1 is standard output, 2 standard error. */
  readonly destination: 1 | 2;
  /** If set, the lines are for a person, instead of JSON; called before each line. */
  readonly beforeLine?: (() => void) | undefined;
}

/** A log without secrets, whatever an error contains. */
export async function openLog({ level, destination, beforeLine }: LogOptions): Promise<Logger> {
  const options: pino.LoggerOptions = {
    level,
    // `"level":"info"` and ISO 8601, which every collector of logs knows.
    formatters: { level: (label) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
    hooks: {
      logMethod(args, method) {
        method.apply(
          this,
          args.map((each: unknown) => (typeof each === "string" ? asCalled(each) : each)) as typeof args,
        );
      },
      streamWrite: (line: string) => printableJson(redact(line)),
    },
  };
  const stream = beforeLine === undefined ? undefined : await openReadable(destination, beforeLine);
  return pino(options, stream ?? openLines(destination));
}

/** Lines that nobody can receive any more (the terminal was closed, the disk of the log is full) end no process. */
function openLines(destination: 1 | 2): ReturnType<typeof pino.destination> {
  const lines = pino.destination({ dest: destination, sync: true, maxLength: 16 * 1024 ** 2 });
  lines.on("error", () => undefined);
  return lines;
}

async function openReadable(destination: 1 | 2, beforeLine: () => void): Promise<pino.DestinationStream> {
  // A library that only a terminal needs.
  const { prettyFactory } = await import("pino-pretty");
  const line = prettyFactory({
    colorize: process.stdout.hasColors?.() ?? false,
    ignore: "pid,hostname",
    // The message says what a person needs.
    hideObject: true,
    translateTime: "SYS:HH:MM:ss",
    messageFormat: (record, key) =>
      record[key] === "request" ? requestLine(record) : visibleLines(String(record[key])),
  });
  const lines = openLines(destination);
  return {
    write: (record) => {
      beforeLine();
      lines.write(printable(line(record) ?? ""));
    },
  };
}

function requestLine({ method, path, status, milliseconds }: Readonly<Record<string, unknown>>): string {
  return `${String(method)} ${String(path)} ${String(status)} (${String(milliseconds)} ms)`;
}
