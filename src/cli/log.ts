import pino from "pino";
import type { Logger } from "pino";
import pretty from "pino-pretty";
import { redactor } from "#config/redact.ts";

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
  /** Lines for a person, instead of JSON. */
  readonly readable: boolean;
}

const unreadable = "pid,hostname,sync,stage,digest,counts,took,outcome,url,err";

export function openLog({ level, destination, readable }: LogOptions): Log {
  let redact = redactor([]);
  const options = { level, hooks: { streamWrite: (line: string) => redact(line) } };
  return {
    logger: readable
      ? pino(options, pretty({ destination, ignore: unreadable, translateTime: "SYS:HH:MM:ss" }))
      : pino(options, pino.destination({ dest: destination, sync: true })),
    conceal: (secrets) => {
      redact = redactor(secrets);
    },
  };
}
