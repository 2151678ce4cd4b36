import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, parse } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { InputError, messageOf, reasonOf, RefusedError, UnavailableError } from "#errors.ts";
import type { Answer } from "#http/client.ts";
import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters, LoadRequest, LoadStarted } from "#wire/loads.ts";
import { familyA, familyB } from "#wire/routes.ts";
import { chunksOf } from "./chunks.ts";
import type { LoadSource } from "./chunks.ts";
import { Cycle, startCycle } from "./cycle.ts";
import type { CycleStatus } from "./cycle.ts";
import { receive } from "./download.ts";
import type { ClientOptions } from "./client.ts";
import { nodeOf } from "./endpoint.ts";
import type { Endpoint } from "./endpoint.ts";
import type { FileData } from "./form.ts";
import { contextOf } from "./request.ts";
import type { Context } from "./request.ts";
import { createSession, dataLogin } from "./session.ts";
import type { Session } from "./session.ts";

export interface LoadsOptions extends Omit<ClientOptions, "prefix"> {
  /** The path before family B, which has the logout. Default: none. */
  readonly prefix?: string | undefined;
  /**
   * Other hosts that the service may redirect a load to: `name` or `name:port`. `stay`: ignore redirections,
   * because the service is known to be the only node.
   */
  readonly nodes?: readonly string[] | "stay" | undefined;
  /** How many chunks are sent at a time. Default: 3. */
  readonly parallel?: number | undefined;
  /**
   * About how large the chunks of a file are, in bytes. A smaller file is sent whole; a larger one is searched for the
   * ends of rows, which takes a few seconds for each GiB. Default: 1 GiB.
   */
  readonly fileChunk?: number | undefined;
  /** About how large the chunks of a stream are, in bytes. Those being sent are held in memory. Default: 16 MiB. */
  readonly streamChunk?: number | undefined;
}

/** What to load, and how. Format and options have the names and defaults of the interface (specification 2.2). */
export interface Load {
  readonly into: { readonly database: string; readonly schema?: string | undefined; readonly table: string };
  readonly format?: LoadRequest["format"];
  readonly options?: LoadRequest["load_options"];
  /** Default: 100. */
  readonly maxReportedErrors?: number | undefined;
  /** The rows, one source after the other. Each begins and ends with a whole row. */
  readonly sources: readonly LoadSource[];
  /** Where to save rejected rows, if there are any. An existing file is never overwritten: a number is added to the name. */
  readonly badRecords?: string | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** How a load ended. */
export interface Loaded {
  readonly cycle: string;
  /** `OK`: everything but the ignored rows is in the table. Anything else: the table is unchanged. */
  readonly code: "OK" | "LOAD_FAILED" | "CANCELLED" | (string & {});
  /** The service's message for a load that is not OK. */
  readonly message?: string | undefined;
  /** Rows. */
  readonly written: number;
  readonly ignored: number;
  /** The size of the uploaded data. */
  readonly bytes: number;
  readonly chunks: number;
  /** The errors of rejected rows (A.12), at most `maxReportedErrors`. */
  readonly errors: readonly string[];
  /** The file that the rejected rows were saved to. */
  readonly badRecords?: string | undefined;
  /** Why they could not be saved. */
  readonly badRecordsProblem?: string | undefined;
}

/** How to stop a load: `signal` makes the service cancel it and waits for that; `abandon` ends the wait. */
export interface LoadSignals {
  readonly signal: AbortSignal;
  readonly abandon?: AbortSignal | undefined;
}

/** How long to wait for a cancellation or a logout, in milliseconds. */
const closeTimeout = 10_000;

/** Enough to outlast a restart of the service. */
const attempts = 10;

/** A client of family A. Nothing is left open between calls. */
export class Loads {
  readonly #options: LoadsOptions;
  readonly #context: Context;
  readonly #session: Session;

  /** @throws {InputError} the url or the certificate is invalid */
  constructor(settings: LoadsOptions) {
    const options = { ...settings, retries: { attempts, ...settings.retries } };
    this.#options = options;
    this.#context = contextOf({ ...options, prefix: "" }, familyA);
    const logoutContext = contextOf({ prefix: "", ...options, log: () => undefined }, familyB);
    this.#session = createSession(this.#context, options.credentials, dataLogin, logoutContext);
  }

  /**
   * Loads sources into a table, all or nothing, and waits for the end. A load that failed because of its rows does not
   * throw: check `code`, or call `requireLoaded`.
   * @throws {RefusedError} the service refused to load at all; {UnavailableError} it could not be reached; {InputError}
   * a source cannot be read. The message says what became of the load, even if it was stopped.
   */
  async load(job: Load, { signal, abandon = neverAborted }: LoadSignals): Promise<Loaded> {
    const { onProgress = () => undefined } = job;
    const request = requestOf(job);
    const { database, schema, table: name } = job.into;
    const table = [database, schema, name].filter((part) => part !== undefined).join(".");
    const title = `target ${this.#options.name}: the load into ${table}`;
    const parameters = parametersOf(request, title);
    const { cycle_id: id, node_address: address } = await startCycle(this.#session, request, signal);
    let cycle = new Cycle(this.#session, id, table, undefined);
    let upload: { readonly bytes: number; readonly chunks: number } | undefined;
    try {
      cycle = new Cycle(this.#session, id, table, this.#nodeAt(address));
      upload = await this.#upload(cycle, job.sources, parameters, { onProgress, signal });
      await cycle.commit(upload.chunks, signal);
    } catch (error) {
      const why = signal.aborted ? "stopped" : upload === undefined ? "not committed" : "perhaps committed";
      throw await cancelAfter(cycle, error, title, abandon, why);
    }
    onProgress({ phase: "commit", bytes: upload.bytes });
    let end: CycleStatus;
    try {
      end = await pollUntilDone(cycle, signal);
    } catch (error) {
      if (!signal.aborted) throw unknownEnd(title, id, error);
      throw await cancelAfter(cycle, error, title, abandon, "stopped");
    }
    const { code, message } = end.status;
    const ignored = end.ignored_row_count;
    return {
      cycle: id,
      code,
      message,
      written: end.rows_written,
      ignored,
      ...upload,
      errors: end.parsing_errors,
      ...(job.badRecords === undefined || ignored === 0 ? {} : await saveBadRecords(cycle, job.badRecords, signal)),
    };
  }

  /** Ends the session that this client has opened. */
  close(): Promise<void> {
    return this.#session.logout(AbortSignal.timeout(closeTimeout)).catch(() => undefined);
  }

  #nodeAt(address: LoadStarted["node_address"]): Endpoint | undefined {
    const { nodes = [], ...options } = this.#options;
    return nodes === "stay" ? undefined : nodeOf(address, this.#context.endpoint, { ...options, prefix: "" }, nodes);
  }

  #upload(
    cycle: Cycle,
    sources: Load["sources"],
    parameters: LoadParameters,
    { onProgress, signal }: { readonly onProgress: (progress: Progress) => void; readonly signal: AbortSignal },
  ): Promise<{ bytes: number; chunks: number }> {
    const { parallel = 3, fileChunk = 2 ** 30, streamChunk = 16 * 2 ** 20 } = this.#options;
    const chunks = (until: AbortSignal): AsyncGenerator<FileData> =>
      chunksOf(sources, { parameters, fileChunk, streamChunk, signal: until });
    return uploadAll(cycle, chunks, { parallel, onProgress, signal });
  }
}

const neverAborted = new AbortController().signal;

function requestOf({ into, format, options, maxReportedErrors }: Load): LoadRequest {
  return {
    target: into,
    format,
    load_options: options,
    advanced_options: maxReportedErrors === undefined ? undefined : { max_reported_parsing_errors: maxReportedErrors },
  };
}

/** The request with its defaults (A.3). @throws {InputError} what is wrong with it: the service would not say */
function parametersOf(request: LoadRequest, title: string): LoadParameters {
  const parsed = loadParameters.safeParse(request);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => [path.join("."), message].filter(Boolean).join(": "));
  throw new InputError(`${title} has invalid settings`, { problems });
}

/**
 * Cancels a load that cannot go on. Returns the error to throw, which says what became of the load: it was stopped, or
 * its commit got no answer and may have arrived all the same.
 */
async function cancelAfter(
  cycle: Cycle,
  error: unknown,
  title: string,
  abandon: AbortSignal,
  why: "stopped" | "not committed" | "perhaps committed",
): Promise<unknown> {
  const limited = AbortSignal.any([abandon, AbortSignal.timeout(closeTimeout)]);
  let result: string;
  try {
    await cycle.cancel(limited);
    const { status } = await cycle.status(limited);
    result =
      status.code === "CANCELLED"
        ? `${title} was cancelled: the table is as it was`
        : `${title} had ended before it could be cancelled: ${status.code}`;
  } catch (cause) {
    result = `${title} was stopped here; it is not known whether the service cancelled it: ${messageOf(cause)} (cycle ${cycle.id})`;
  }
  if (why === "not committed") return error;
  const cause = why === "stopped" ? "" : `. ${messageOf(error)}`;
  return new UnavailableError(`${result}${cause}`, { cause: error });
}

function unknownEnd(title: string, id: string, error: unknown): UnavailableError {
  return new UnavailableError(
    `${title} was committed, but the result is unknown: ${messageOf(error)}. ` +
      `Either all rows will be in the table, or none (cycle ${id})`,
    { cause: error },
  );
}

/** @throws {RefusedError} with the service's message, if the load is not in the table */
export function requireLoaded(loaded: Loaded, title: string): Loaded {
  if (loaded.code === "OK") return loaded;
  const errors = loaded.errors.slice(0, 10).map((error) => `\n  ${error}`);
  throw new RefusedError(`${title}: ${loaded.message ?? loaded.code}${errors.join("")}`);
}

/** How far a load has come. */
export interface Progress {
  readonly phase: "upload" | "commit";
  /** Bytes sent, including those of unfinished uploads. */
  readonly bytes: number;
}

/** Sends chunks, several at a time, numbered from 1. If one fails, the others are cancelled. */
async function uploadAll(
  cycle: Cycle,
  chunksUntil: (signal: AbortSignal) => AsyncGenerator<FileData>,
  options: {
    readonly parallel: number;
    readonly onProgress: (progress: Progress) => void;
    readonly signal: AbortSignal;
  },
): Promise<{ bytes: number; chunks: number }> {
  const failure = new AbortController();
  const signal = AbortSignal.any([options.signal, failure.signal]);
  const chunks = chunksUntil(signal);
  let count = 0;
  let bytes = 0;

  const counted = (data: FileData): FileData => {
    let sent = 0;
    return {
      ...data,
      bytes: async function* counting() {
        // A repeated upload starts again from the beginning.
        bytes -= sent;
        sent = 0;
        for await (const block of data.bytes()) {
          yield block;
          sent += block.length;
          bytes += block.length;
          options.onProgress({ phase: "upload", bytes });
        }
      },
    };
  };

  async function work(): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const next = await chunks.next();
      if (next.done === true) return;
      // In the order of the rows: the generator answers calls in their order.
      count += 1;
      await cycle.upload(count, counted(next.value), signal);
    }
  }

  const workers = Array.from({ length: options.parallel }, async () => {
    try {
      await work();
    } catch (error) {
      failure.abort(error);
    }
  });
  await Promise.all(workers);
  await chunks.return(undefined).catch(() => undefined);
  signal.throwIfAborted();
  return { bytes, chunks: count };
}

/** The pauses between status requests, in milliseconds: each is twice as long as the one before. */
const pauses = { first: 25, longest: 1000 };

/** Polls until the load has ended (specification 3.5), without a pause if the service holds back its answer (A.11). */
async function pollUntilDone(cycle: Cycle, signal: AbortSignal): Promise<CycleStatus> {
  for (let pause = pauses.first; ; pause = Math.min(pauses.longest, pause * 2)) {
    const started = performance.now();
    const status = await cycle.status(signal);
    if (status.status.code !== "OK" || status.internal_stage === "DONE") return status;
    const left = pause - (performance.now() - started);
    if (left <= 0) continue;
    await sleep(left, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}

/**
 * Saves the rejected rows of a cycle to a new file. The load is over, so a failure is reported, not thrown.
 * @param wanted the file's path; if that exists, a number is added before the extension
 */
async function saveBadRecords(
  cycle: Cycle,
  wanted: string,
  signal: AbortSignal,
): Promise<Pick<Loaded, "badRecords" | "badRecordsProblem">> {
  try {
    const path = await cycle.badRecords((answer) => save(answer, wanted), signal);
    return { badRecords: path };
  } catch (error) {
    return { badRecordsProblem: messageOf(error) };
  }
}

async function save(answer: Answer, wanted: string): Promise<string> {
  const { path, file } = await openNew(wanted);
  try {
    await receive(answer.body, { file, folder: dirname(path) });
    return path;
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

async function openNew(wanted: string): Promise<{ path: string; file: FileHandle }> {
  const { dir, name, ext } = parse(wanted);
  for (let number = 1; ; number += 1) {
    const path = number === 1 ? wanted : `${dir === "" ? "" : `${dir}/`}${name}.${number}${ext}`;
    try {
      return { path, file: await open(path, "wx", 0o600) };
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EEXIST") continue;
      throw new InputError(`${path} cannot be written: ${reasonOf(error)}`, { cause: error });
    }
  }
}
