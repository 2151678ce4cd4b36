import { open, rename, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { UnavailableError, messageOf } from "#errors.ts";
import { Unusable } from "#http/trouble.ts";
import { Broken } from "#http/exchange.ts";
import type { Answer } from "#http/exchange.ts";

/** A file that is open for writing. */
export interface Destination {
  readonly file: FileHandle;
  /** For messages. */
  readonly folder: string;
}

/**
 * Makes the file `destination` of what `fill` writes: complete, or not at all. It is opened before `fill` is called,
 * so that a folder that cannot be written to is found before anything is asked of the service.
 */
export async function complete(destination: string, fill: (file: Destination) => Promise<void>): Promise<void> {
  const temporary = `${destination}.partial`;
  // Appending, so that writing begins anew wherever a failed attempt has been cut off.
  const file = await open(temporary, "a", 0o600).catch((error: unknown) => {
    throw new UnavailableError(`the file ${temporary} cannot be written: ${messageOf(error)}`, { cause: error });
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
 * Writes an answer's body, unpacked, to `file`, which is emptied before.
 * @param brackets what the JSON begins and ends with; whether it is well-formed in between is seen by who reads it
 * @throws {Broken} it ended early, is not JSON, or cannot be written
 */
export async function receive(
  { headers, body }: Answer,
  { file, folder }: Destination,
  brackets: "[]" | "{}",
): Promise<void> {
  const encoding = headers["content-encoding"];
  const packed = encoding === "gzip" || encoding === "x-gzip";
  if (!packed && encoding !== undefined && encoding !== "identity") {
    throw unusable("the answer is packed in a way that was not asked for", "fix");
  }
  let first: number | undefined;
  let last: number | undefined;
  const write = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of source) {
      first ??= chunk.find(isVisible);
      last = chunk.findLast(isVisible) ?? last;
      if (first !== undefined && first !== brackets.charCodeAt(0)) throw notJson(headers["content-type"]);
      await file.appendFile(chunk).catch((error: unknown) => {
        throw unwritable(folder, error);
      });
    }
  };
  try {
    await file.truncate(0);
    await (packed ? pipeline(body, createGunzip({ chunkSize: 64 * 1024 }), write) : pipeline(body, write));
  } catch (error) {
    throw error instanceof Broken ? error : new Broken("receive", error);
  }
  if (last === undefined) throw notJson(headers["content-type"]);
  if (last !== brackets.charCodeAt(1)) throw unusable("the answer broke off", "repeat");
}

/** Writes an answer's body, unpacked, to `file`. @throws {Broken} it ended early, or cannot be written */
export async function receiveBytes({ headers, body }: Answer, { file, folder }: Destination): Promise<void> {
  const write = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of source) {
      await file.appendFile(chunk).catch((error: unknown) => {
        throw unwritable(folder, error);
      });
    }
  };
  try {
    await file.truncate(0);
    await (headers["content-encoding"] === "gzip" ? pipeline(body, createGunzip(), write) : pipeline(body, write));
  } catch (error) {
    throw error instanceof Broken ? error : new Broken("receive", error);
  }
}

function unwritable(folder: string, error: unknown): Broken {
  const isFull = error instanceof Error && "code" in error && /^(?:ENOSPC|EDQUOT)$/.test(String(error.code));
  const why = isFull ? "the disk is full; make room, then try again" : messageOf(error);
  return unusable(`the answer cannot be kept: the folder ${folder} cannot be written: ${why}`, "later");
}

function isVisible(byte: number): boolean {
  return byte > 0x20;
}

function notJson(contentType: string | string[] | undefined): Broken {
  const type = typeof contentType === "string" ? (/^[\w./+-]{1,60}/.exec(contentType)?.[0] ?? "unknown") : "unknown";
  return unusable(
    `the answer is not JSON (content type ${type}): is it a proxy's or a login page? Check url and prefix`,
    "fix",
  );
}

function unusable(reason: string, advice: Unusable["advice"]): Broken {
  return new Broken("receive", new Unusable(reason, advice));
}
