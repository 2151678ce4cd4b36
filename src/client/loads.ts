import { InputError, RefusedError, UnavailableError, messageOf } from "#errors.ts";
import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters, LoadRequest } from "#wire/loads.ts";
import { familyA, familyB } from "#wire/routes.ts";
import { chunksOf } from "./chunks.ts";
import type { LoadSource } from "./chunks.ts";
import { contextOf } from "./context.ts";
import type { ClientOptions } from "./context.ts";
import { cycleClient, startCycle } from "./cycle.ts";
import type { CycleClient, CycleStatus } from "./cycle.ts";
import type { FileData } from "./form.ts";
import { nodeOf } from "./node.ts";
import { pollUntilDone } from "./poll.ts";
import { saveBadRecords } from "./bad-records.ts";
import { createSession, dataLogin } from "./session.ts";
import { uploadAll } from "./upload.ts";
import type { Progress } from "./upload.ts";

export interface LoadsOptions extends Omit<ClientOptions, "prefix"> {
  /** What stands before family B, where the logout is. Default: nothing. */
  readonly prefix?: string;
  /**
   * Hosts that a load may be sent to when the service says so, beside its own: `name` or `name:port`. `stay`: what it
   * says is not heeded, for a service that is known to be the only node.
   */
  readonly nodes?: readonly string[] | "stay";
  /** How many chunks are sent at a time. Default: 3. */
  readonly parallel?: number;
  /**
   * About how large the chunks of a file are, in bytes. A smaller file is sent as it is; in a larger one the ends of rows
   * are looked for, at about a second for each GiB. Default: 1 GiB.
   */
  readonly fileChunk?: number;
  /** About how large the chunks of a stream are, in bytes; as many as are sent at a time are held in memory. Default: 16 MiB. */
  readonly streamChunk?: number;
}

/** What is loaded, and how. Format and options have the names and the defaults of the interface (specification 2.2). */
export interface Load {
  readonly into: { readonly database: string; readonly schema?: string; readonly table: string };
  readonly format?: NonNullable<LoadRequest["format"]>;
  readonly options?: NonNullable<LoadRequest["load_options"]>;
  /** Default: 100. */
  readonly maxReportedErrors?: number;
  /** One after the other they are the rows of the table. Each begins and ends with a whole row. */
  readonly sources: readonly LoadSource[];
  /** Where rejected rows are saved, if there are any; a file that is there already is not touched: then with a number. */
  readonly badRecords?: string;
  readonly onProgress?: (progress: Progress) => void;
}

/** How a load ended. */
export interface Loaded {
  readonly cycle: string;
  /** `OK`: everything but the ignored rows is in the table. Anything else: the table is as it was. */
  readonly code: "OK" | "LOAD_FAILED" | "CANCELLED" | (string & {});
  /** What the service says of a load that is not OK. */
  readonly message?: string;
  /** Rows. */
  readonly written: number;
  readonly ignored: number;
  /** Of the uploaded data. */
  readonly bytes: number;
  readonly chunks: number;
  /** What was wrong with rejected rows (A.12), at most `maxReportedErrors`. */
  readonly errors: readonly string[];
  /** The file that the rejected rows were saved to. */
  readonly badRecords?: string;
  /** Why they could not be saved. */
  readonly badRecordsProblem?: string;
}

/** How a load is stopped: `signal` has the service cancel it, which is waited for; `abandon` ends that too. */
export interface LoadSignals {
  readonly signal: AbortSignal;
  readonly abandon?: AbortSignal;
}

/** A client of family A. Nothing is left open between calls. */
export interface Loads {
  /**
   * Loads sources into a table, all or nothing, and waits for the end. A load that the service refused for its rows
   * is no error here: look at `code`, or have `requireLoaded` do so.
   * @throws {RefusedError} the service refused to load at all; {UnavailableError} it could not be reached; {InputError}
   * a source cannot be read. In all of these cases, and when it was stopped, the message says what became of the load.
   */
  load(load: Load, signals: LoadSignals): Promise<Loaded>;
  /** Ends the session that this client has opened. */
  close(): Promise<void>;
}

/** How long the cancelling of a load, and the end of a session, are waited for, in milliseconds. */
const farewell = 10_000;

/** A service that is being started again is waited for. */
const patient = { attempts: 10 };

/** @throws {InputError} an url or a certificate that is none */
export function openLoads(settings: LoadsOptions): Loads {
  const { nodes = [], parallel = 3, fileChunk = 2 ** 30, streamChunk = 16 * 2 ** 20, ...rest } = settings;
  const options = { ...rest, retries: { ...patient, ...rest.retries } };
  const context = contextOf({ ...options, prefix: "" }, familyA);
  const exit = contextOf({ prefix: "", ...options, log: () => undefined }, familyB);
  const session = createSession(context, options.credentials, dataLogin, exit);

  async function load(wanted: Load, { signal, abandon = neverAborted }: LoadSignals): Promise<Loaded> {
    const { sources, onProgress = () => undefined } = wanted;
    const request = requestOf(wanted);
    const { database, schema, table: name } = wanted.into;
    const table = [database, schema, name].filter((part) => part !== undefined).join(".");
    const title = `target ${options.name}: the load into ${table}`;
    const parameters = checked(request, title);
    const { cycle_id: id, node_address: address } = await startCycle(session, request, signal);
    let cycle = cycleClient(session, id, table, undefined);
    let upload: { readonly bytes: number; readonly chunks: number } | undefined;
    try {
      if (nodes !== "stay") {
        cycle = cycleClient(session, id, table, nodeOf(address, context.http, { ...options, prefix: "" }, nodes));
      }
      const chunks = (until: AbortSignal): AsyncGenerator<FileData> =>
        chunksOf(sources, { parameters, fileChunk, streamChunk, signal: until });
      upload = await uploadAll(cycle, chunks, { parallel, onProgress, signal });
      await cycle.commit(upload.chunks, signal);
    } catch (error) {
      const why = signal.aborted ? "stopped" : upload === undefined ? "not committed" : "perhaps committed";
      throw await undone(cycle, error, title, abandon, why);
    }
    onProgress({ phase: "commit", bytes: upload.bytes });
    let end: CycleStatus;
    try {
      end = await pollUntilDone(cycle, signal);
    } catch (error) {
      if (!signal.aborted) throw unknownEnd(title, id, error);
      throw await undone(cycle, error, title, abandon, "stopped");
    }
    const { code, message } = end.status;
    return {
      cycle: id,
      code,
      ...(message === undefined ? {} : { message }),
      written: end.rows_written,
      ignored: end.ignored_row_count,
      ...upload,
      errors: end.parsing_errors,
      ...(wanted.badRecords === undefined || end.ignored_row_count === 0
        ? {}
        : await saveBadRecords(cycle, wanted.badRecords, signal)),
    };
  }

  return {
    load,
    close: () => session.logout(AbortSignal.timeout(farewell)).catch(() => undefined),
  };
}

const neverAborted = new AbortController().signal;

function requestOf({ into, format, options, maxReportedErrors }: Load): LoadRequest {
  return {
    target: into,
    ...(format === undefined ? {} : { format }),
    ...(options === undefined ? {} : { load_options: options }),
    ...(maxReportedErrors === undefined
      ? {}
      : { advanced_options: { max_reported_parsing_errors: maxReportedErrors } }),
  };
}

/** What the request means (A.3). @throws {InputError} what is wrong with it, which the service does not say */
function checked(request: LoadRequest, title: string): LoadParameters {
  const parsed = loadParameters.safeParse(request);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => [path.join("."), message].filter(Boolean).join(": "));
  throw new InputError(`${title} is described wrongly`, { problems });
}

/**
 * Cancels a load that cannot go on. The error to throw says what has become of it: of a load that was stopped, and of one
 * whose commit was not answered and may yet have been heard.
 */
async function undone(
  cycle: CycleClient,
  error: unknown,
  title: string,
  abandon: AbortSignal,
  why: "stopped" | "not committed" | "perhaps committed",
): Promise<unknown> {
  const limited = AbortSignal.any([abandon, AbortSignal.timeout(farewell)]);
  let said: string;
  try {
    await cycle.cancel(limited);
    const { status } = await cycle.status(limited);
    said =
      status.code === "CANCELLED"
        ? `${title} was cancelled: the table is as it was`
        : `${title} had ended before it could be cancelled: ${status.code}`;
  } catch (cause) {
    said = `${title} was stopped here; whether the service has cancelled it is not known: ${messageOf(cause)} (cycle ${cycle.id})`;
  }
  if (why === "not committed") return error;
  const cause = why === "stopped" ? "" : `. ${messageOf(error)}`;
  return new UnavailableError(`${said}${cause}`, { cause: error });
}

function unknownEnd(title: string, id: string, error: unknown): UnavailableError {
  return new UnavailableError(
    `${title} was committed, and how it ends is not known: ${messageOf(error)}. ` +
      `Either all of the rows will be in the table or none (cycle ${id})`,
    { cause: error },
  );
}

/** @throws {RefusedError} with the service's message, when the load is not in the table */
export function requireLoaded(loaded: Loaded, title: string): Loaded {
  if (loaded.code === "OK") return loaded;
  const errors = loaded.errors.slice(0, 10).map((error) => `\n  ${error}`);
  throw new RefusedError(`${title}: ${loaded.message ?? loaded.code}${errors.join("")}`);
}
