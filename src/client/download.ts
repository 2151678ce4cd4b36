import { open, rename, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { BoundError, JsonBounds } from "#input-bounds.ts";
import { UnavailableError, messageOf, reasonOf } from "#errors.ts";
import type { Answer } from "#http/client.ts";
import { unusableAnswer } from "#http/errors.ts";
import type { HttpError } from "#http/errors.ts";

/** A file that is open for writing. */
export interface Destination {
  readonly file: FileHandle;
  /** For messages. */
  readonly folder: string;
}

/**
 * Creates the file `destination` with what `fill` writes: complete, or not at all. It is opened before `fill` is called, so
 * that a folder that cannot be written to is noticed before the first request to the service.
 */
export async function complete(destination: string, fill: (file: Destination) => Promise<void>): Promise<void> {
  const temporary = `${destination}.partial`;
  // Opened for appending, so that writing starts at the right place after a failed attempt was truncated.
  const file = await open(temporary, "a", 0o600).catch((error: unknown) => {
    throw new UnavailableError(`the file ${temporary} cannot be written: ${reasonOf(error)}`, { cause: error });
  });
  try {
    await fill({ file, folder: dirname(destination) });
    await file.close();
    await rename(temporary, destination);
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * An answer's body that must be JSON, as it arrives.
 * @param brackets what the JSON begins and ends with; whoever reads it checks what is between them
 * @throws {HttpError} it ended early, or is not JSON
 */
export async function* jsonBytes({ headers, body }: Answer, brackets: "[]" | "{}"): AsyncGenerator<Buffer> {
  const bounds = new JsonBounds(Infinity);
  let first: number | undefined;
  let last: number | undefined;
  for await (const chunk of body) {
    try {
      bounds.add(chunk);
    } catch (error) {
      // Another attempt would give the same.
      throw error instanceof BoundError ? unusableAnswer(`the answer ${error.message}`, "fix") : error;
    }
    first ??= chunk.find(isVisible);
    last = chunk.findLast(isVisible) ?? last;
    if (first !== undefined && first !== brackets.charCodeAt(0)) throw notJson(headers["content-type"]);
    yield chunk;
  }
  if (last === undefined) throw notJson(headers["content-type"]);
  if (last !== brackets.charCodeAt(1)) throw unusableAnswer("the answer broke off", "repeat");
}

/** Writes what arrives to `file`, which is emptied before. @throws {HttpError} it cannot be written; what `bytes` throws */
export async function receive(bytes: AsyncIterable<Buffer>, { file, folder }: Destination): Promise<void> {
  const failed = (error: unknown): never => {
    throw unwritable(folder, error);
  };
  await file.truncate(0).catch(failed);
  for await (const chunk of bytes) await file.appendFile(chunk).catch(failed);
}

function unwritable(folder: string, error: unknown): HttpError {
  const isFull = error instanceof Error && "code" in error && /^(?:ENOSPC|EDQUOT)$/.test(String(error.code));
  const why = isFull ? "the disk is full; make room, then try again" : messageOf(error);
  return unusableAnswer(`the answer cannot be stored: cannot write to the folder ${folder}: ${why}`, "later");
}

function isVisible(byte: number): boolean {
  return byte > 0x20;
}

function notJson(contentType: string | string[] | undefined): HttpError {
  const type = typeof contentType === "string" ? (/^[\w./+-]{1,60}/.exec(contentType)?.[0] ?? "unknown") : "unknown";
  return unusableAnswer(
    `the answer is not JSON (content type ${type}): is it a proxy's or a login page? Check url and prefix`,
    "fix",
  );
}
