import { fileURLToPath } from "node:url";
import { redact } from "./redact.ts";

/**
 * The errors Rollcall raises on purpose. The class says what the caller should do; the message and the problems are
 * safe to show to anyone who may see the run: they never hold a secret.
 */
export abstract class RollcallError extends Error {
  /** `fix`: the input must change first. `retry`: the same call may succeed later. `stop`: a person must look. */
  abstract readonly advice: "fix" | "retry" | "stop";
}

/** Something a person wrote (configuration, a file, a request, an option) is wrong. Fix it, then call again. */
export class InputError extends RollcallError {
  override readonly name = "InputError";
  override readonly advice = "fix";
  /** Every problem found, each naming its place (file, line, key or field). Empty when the message says it all. */
  readonly problems: readonly string[];

  constructor(message: string, options: { problems?: readonly string[]; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.problems = options.problems ?? [];
  }
}

/** A source could not prove that it delivered everything in scope. Nothing may be concluded from what it did deliver. */
export class IncompleteReadError extends RollcallError {
  override readonly name = "IncompleteReadError";
  override readonly advice: "fix" | "retry";
  /** The source changed while it was read: reading it again at once may succeed. */
  readonly torn: boolean;

  /** @param options.transient a writer may be at work: reading again later may succeed */
  constructor(message: string, options: { torn?: boolean; transient?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.torn = options.torn ?? false;
    this.advice = this.torn || options.transient === true ? "retry" : "fix";
  }
}

/** Another system did not answer as it should: no connection, a time-out, an overload. Nothing is known to have changed. */
export class UnavailableError extends RollcallError {
  override readonly name = "UnavailableError";
  override readonly advice = "retry";
}

/** Another system answered and refused: wrong credentials, missing privileges, a rejected request. */
export class RefusedError extends RollcallError {
  override readonly name = "RefusedError";
  override readonly advice = "fix";
  /** The HTTP status of the refusal, where there was one. */
  readonly status: number | undefined;

  constructor(message: string, options: { status?: number; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.status = options.status;
  }
}

/** A target refused one change: a value it does not take, a name that is taken. Others may still be written. */
export class ObjectRefusedError extends RollcallError {
  override readonly name = "ObjectRefusedError";
  override readonly advice = "fix";
  /** The HTTP status of the refusal, where there was one. 412: the object has changed since it was read. */
  readonly status: number | undefined;

  constructor(message: string, options: { status?: number; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.status = options.status;
  }
}

/**
 * What stopped a run: limits; that plan and preview, the two opinions, differ; that the target was not what was planned
 * when it was listed again; that the changes are no longer those that were shown.
 */
export type HeldBy = "limits" | "opinions" | "verification" | "digest";

/** The run was stopped to protect the target: what would happen is not what was shown or expected. */
export class HeldError extends RollcallError {
  override readonly name = "HeldError";
  override readonly advice = "stop";
  /** The differences, one line each. */
  readonly problems: readonly string[];
  readonly by: HeldBy;
  /** The command that applies exactly this plan anyway. Absent: there is none. */
  readonly next: string | undefined;

  constructor(message: string, problems: readonly string[], by: HeldBy, next?: string) {
    super(message);
    this.problems = problems;
    this.by = by;
    this.next = next;
  }
}

/** The message of anything thrown; of an `Error` with an empty message (`AggregateError`), its code or its causes'. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (isOfReplacedProgram(error)) return "the program was replaced while it was running; restart Rollcall";
  if (error.message !== "") return error.message;
  if (error instanceof AggregateError) return error.errors.map(messageOf).join("; ");
  return "code" in error ? String(error.code) : error.name;
}

/** Whether a part of this program that is loaded when it is needed has gone meanwhile, as when another version was installed. */
function isOfReplacedProgram(error: Error): boolean {
  const { code, url } = error as { code?: unknown; url?: unknown };
  return code === "ERR_MODULE_NOT_FOUND" && String(url).startsWith(new URL(".", import.meta.url).href);
}

/** Why the system refused a file, by its code. */
const fileReasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied (EACCES)",
  EPERM: "operation not permitted (EPERM)",
  ENOENT: "it does not exist (ENOENT)",
  EEXIST: "a file has that name (EEXIST)",
  EISDIR: "it is a folder (EISDIR)",
  ENOTDIR: "part of its path is a file, not a folder (ENOTDIR)",
  ELOOP: "it is a link that leads back to itself (ELOOP)",
  EROFS: "its file system is read-only (EROFS)",
  EIO: "its disk reports a fault (EIO)",
};

/** Why a file cannot be read or written, without its path: `permission denied (EACCES)`. Of other errors, their message. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && "syscall" in error && "code" in error ? String(error.code) : "";
  return fileReasons[code] ?? messageOf(error);
}

/** The message of anything thrown, for a person. What no code expected of a file names the file first. */
function describedMessage(error: unknown): string {
  const reason = reasonOf(error);
  if (!(error instanceof Error) || !("path" in error) || reason === error.message) return reason;
  return `${String(error.path)} cannot be used: ${reason}${reason.includes("EACCES") ? "; run as its owner" : ""}`;
}

/** The first line of the message of anything thrown: what libraries put below it is for their own developers. */
export function firstLineOf(error: unknown): string {
  return messageOf(error).split("\n", 1)[0] ?? "";
}

/** An error as `--json`, the record of a run and the daemon's API show it. */
export interface ErrorDocument {
  readonly message: string;
  readonly problems: readonly string[];
  readonly advice: string;
  /** The command that applies a held plan anyway. Absent in records of older versions. */
  readonly next?: string | undefined;
}

/**
 * The file and line that threw an error, for whoever wrote them, such as `/etc/rollcall/hr.ts:12:5`: of the code nearest
 * to the fault that is in no library, and otherwise of the fault. "" when nothing tells.
 */
export function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const places = (error.stack ?? "")
    .split("\n")
    .flatMap((line) => /^(?: +at (?:.*\()?)?((?:file:\/\/)?\/.*:\d+)\)?$/.exec(line)?.[1] ?? []);
  const place = places.find((each) => !each.includes("/node_modules/")) ?? places[0] ?? "";
  return place.startsWith("file:") ? fileURLToPath(place) : place;
}

/** The error of JavaScript itself that is behind another one: a fault in a program, not in what it was given. */
function faultBehind(error: unknown): Error | undefined {
  if (error instanceof RollcallError || !(error instanceof Error)) return undefined;
  const isFault = [TypeError, ReferenceError, RangeError].some((each) => error instanceof each);
  return isFault ? error : faultBehind(error.cause);
}

/** Without secrets. Of a fault in a program, such as a connector of one's own, the message ends with its place. */
export function errorDocument(error: unknown): ErrorDocument {
  const place = placeOf(faultBehind(error));
  return {
    message: redact(`${describedMessage(error)}${place === "" ? "" : `, at ${place}`}`),
    problems: error instanceof InputError || error instanceof HeldError ? error.problems.map(redact) : [],
    advice: error instanceof RollcallError ? error.advice : "stop",
    ...(error instanceof HeldError && error.next !== undefined && { next: redact(error.next) }),
  };
}
