import { InputError, messageOf, RefusedError, UnavailableError } from "#errors.ts";
import type { ListedTable, Query, Table, TableName } from "#service/engine/engine.ts";
import type { LoadJob } from "#service/loads/commit.ts";
import type { Outcome } from "#service/loads/cycle.ts";
import type { Preview, PreviewJob } from "#service/loads/preview.ts";
import type { ServiceSettings } from "#service/options.ts";
import type { Format } from "#service/pinboards/rows.ts";

/** What the service asks of its worker. `file` is where rows go that are too many for a message. */
export type Task =
  | { readonly kind: "find"; readonly name: TableName }
  | { readonly kind: "tables" }
  | { readonly kind: "problem" }
  | { readonly kind: "checkpoints"; readonly isHeld: boolean }
  | { readonly kind: "preview"; readonly job: PreviewJob }
  | { readonly kind: "load"; readonly job: LoadJob }
  | { readonly kind: "execute"; readonly database: string | undefined; readonly sql: string; readonly file: string }
  | { readonly kind: "query"; readonly query: Query; readonly format: Format; readonly file: string };

/** What it answers, by kind. */
export interface Results {
  readonly find: Table | undefined;
  readonly tables: readonly ListedTable[];
  readonly problem: string | undefined;
  readonly checkpoints: null;
  readonly preview: Preview;
  readonly load: Outcome;
  readonly execute: WrittenRows;
  readonly query: WrittenRows;
}

/** The rows of an answer as JSON, with commas between them and without the brackets around them. */
export interface WrittenRows {
  readonly columnNames: readonly string[];
  readonly rowCount: number;
  readonly totalRowCount: number;
  /** In bytes. */
  readonly size: number;
  /** The rows, if they are few; otherwise they are in the file. */
  readonly text?: string | undefined;
}

/** SQL as `Engine.define` takes it. */
export interface TableDefinitions {
  readonly sql: string;
  /** Its file, for messages. */
  readonly origin: string;
}

/** How the worker opens the databases. */
export interface WorkerSettings {
  readonly engine: ServiceSettings["engine"];
  /** The folder of the databases; with PostgreSQL, of what does not fit into DuckDB's memory. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. All answers together may have as much. */
  readonly memory: number;
  /** The folders that loads read and write. */
  readonly files: readonly string[];
  /** What is created where it does not exist, before the first task. */
  readonly tables?: TableDefinitions | undefined;
  /** A database could not be written to in the process before. */
  readonly hasFailed?: boolean | undefined;
}

export type ToWorker =
  | { readonly type: "open"; readonly settings: WorkerSettings }
  | { readonly type: "task"; readonly id: number; readonly task: Task }
  | { readonly type: "abort"; readonly id: number }
  /** The answer to `room`; with an error, there is none. */
  | { readonly type: "room"; readonly id: number; readonly error?: SentError | undefined }
  | { readonly type: "close" };

export type FromWorker =
  | { readonly type: "opened" }
  | { readonly type: "failed"; readonly error: SentError }
  | { readonly type: "result"; readonly id: number; readonly result: Results[keyof Results] }
  | { readonly type: "error"; readonly id: number; readonly error: SentError }
  /** A database has to be opened again. Tasks that end meanwhile end as usual. */
  | { readonly type: "invalidated"; readonly error: SentError }
  /** The task has failed for that. */
  | { readonly type: "lost"; readonly id: number }
  /** An answer grows by so many bytes; or the task goes on when a file that arrives has so many. */
  | { readonly type: "room"; readonly id: number; readonly bytes: number };

/** An error between processes: what a caller or the log needs of it. */
export interface SentError {
  readonly name: string;
  readonly message: string;
  readonly problems: readonly string[];
  readonly stack?: string | undefined;
  /** The system's code: `ENOSPC`. */
  readonly code?: string | undefined;
  readonly cause?: SentError | undefined;
}

export function sent(error: unknown): SentError {
  if (!(error instanceof Error)) return { name: "Error", message: messageOf(error), problems: [] };
  return {
    name: error.name,
    message: error.message,
    problems: error instanceof InputError ? error.problems : [],
    stack: error.stack,
    code: "code" in error && typeof error.code === "string" ? error.code : undefined,
    cause: error.cause === undefined ? undefined : sent(error.cause),
  };
}

export function received({ name, message, problems, stack, code, cause: inner }: SentError): Error {
  const cause = inner === undefined ? undefined : received(inner);
  if (name === "InputError") return new InputError(message, { problems, cause });
  if (name === "UnavailableError") return new UnavailableError(message, { cause });
  if (name === "RefusedError") return new RefusedError(message, { cause });
  const error = new Error(message, { cause });
  error.name = name;
  if (stack !== undefined) error.stack = stack;
  return code === undefined ? error : Object.assign(error, { code });
}
