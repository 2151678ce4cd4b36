import pino from "pino";
import type { Logger } from "pino";
import { redactor } from "#http/redact.ts";

/** A log that keeps to itself what it is told to conceal, whatever an error may carry. */
export interface Log {
  readonly logger: Logger;
  /** From here on, none of these values is written. */
  conceal(secrets: readonly string[]): void;
}

export interface LogOptions {
  readonly level: "silent" | "info" | "debug";
  /** The file descriptor: 1 is standard output, 2 standard error. */
  readonly destination: 1 | 2;
  /** Lines for a person, instead of JSON; called before each. */
  readonly readable?: () => void;
}

/** What is said in the message already, or of no use to a person who watches. */
const unreadable =
  "pid,hostname,sync,run,stage,digest,counts,took,outcome,url,advice,problems,incident,address,method,path,status,milliseconds";

export async function openLog({ level, destination, readable }: LogOptions): Promise<Log> {
  let redact = redactor([]);
  const options = { level, hooks: { streamWrite: (line: string) => redact(line) } };
  const stream = readable === undefined ? undefined : await openReadable(destination, readable);
  return {
    logger: pino(options, stream ?? pino.destination({ dest: destination, sync: true })),
    conceal: (secrets) => {
      redact = redactor(secrets);
    },
  };
}

async function openReadable(destination: 1 | 2, beforeLine: () => void): Promise<pino.DestinationStream> {
  // Only at a terminal: a library that nothing else has a use for.
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
      lines.write(line(record));
    },
  };
}

function requestLine({ method, path, status, milliseconds }: Readonly<Record<string, unknown>>): string {
  return `${String(method)} ${String(path)} ${String(status)} (${String(milliseconds)} ms)`;
}
