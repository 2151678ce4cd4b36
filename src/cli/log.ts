import pino from "pino";
import type { Logger } from "pino";
import { asCalled } from "#commands.ts";
import { redactor } from "#http/redact.ts";
import { printable, printableJson } from "#text.ts";

/** A log without secrets, whatever an error contains. */
export interface Log {
  readonly logger: Logger;
  /** From here on, none of these values is written. */
  conceal(secrets: readonly string[]): void;
}

export interface LogOptions {
  readonly level: "silent" | "info" | "debug";
  /** The file descriptor: 1 is standard output, 2 standard error. */
  readonly destination: 1 | 2;
  /** If set, the lines are for a person, instead of JSON; called before each line. */
  readonly beforeLine?: (() => void) | undefined;
}

/** What the message already says, or a person who watches does not need. */
const unreadable =
  "pid,hostname,sync,run,stage,digest,counts,took,outcome,url,advice,problems,incident,address,method,path,status,milliseconds";

export async function openLog({ level, destination, beforeLine }: LogOptions): Promise<Log> {
  let redact = redactor([]);
  const options: pino.LoggerOptions = {
    level,
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
  return {
    logger: pino(options, stream ?? pino.destination({ dest: destination, sync: true })),
    conceal: (secrets) => {
      redact = redactor(secrets);
    },
  };
}

async function openReadable(destination: 1 | 2, beforeLine: () => void): Promise<pino.DestinationStream> {
  // A library that only a terminal needs.
  const { prettyFactory } = await import("pino-pretty");
  const line = prettyFactory({
    colorize: process.stdout.hasColors?.() ?? false,
    ignore: unreadable,
    translateTime: "SYS:HH:MM:ss",
    messageFormat: (record, key) => (record[key] === "request" ? requestLine(record) : String(record[key])),
  });
  const lines = pino.destination({ dest: destination, sync: true });
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
