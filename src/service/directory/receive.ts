import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import type { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { InputError } from "#errors.ts";
import { abandon } from "#files/durable.ts";
import { readForm } from "#service/server/form.ts";
import type { FieldSink, FormFields } from "#service/server/form.ts";

/** The parameters of `user/sync` other than the list (B.3, B.4). */
export interface SyncParameters {
  readonly apply: boolean;
  readonly removeDeleted: boolean;
  readonly defaultPassword: string | undefined;
}

/** A complete call of `user/sync`. */
export interface ReceivedSync extends SyncParameters {
  /** The file that holds the list, decoded. */
  readonly list: string;
  /** Removes the list. Never throws. */
  discard(): Promise<void>;
}

/** The longest value of a parameter other than the list, in bytes. */
const longestParameter = 64 * 1024;

/**
 * Receives the form of `user/sync` (B.2 to B.4, 0.3). The list is written to a file as it arrives, readable by its
 * owner alone, since it may hold passwords. When anything fails, nothing is left of it.
 * @param query gives the parameters that the form does not
 * @returns undefined when it is no form, or has no list: a 415 without a body
 * @throws {InputError} when a parameter is not what it must be
 */
export async function receiveSync(
  body: Readable,
  contentType: string | undefined,
  query: URLSearchParams,
  folder: string,
  signal: AbortSignal,
): Promise<ReceivedSync | undefined> {
  signal.throwIfAborted();
  addAbortSignal(signal, body);
  const form = new SyncForm(folder);
  const discard = (): Promise<void> => form.discard().catch(() => undefined);
  try {
    const isForm = await readForm(body, contentType, form);
    const list = isForm ? await form.list() : undefined;
    if (list !== undefined) {
      const given = new Map([...query].map(([name, value]) => [name.toLowerCase(), value]));
      return { list, discard, ...readSyncParameters(new Map([...given, ...form.parameters()])) };
    }
  } catch (error) {
    await discard();
    signal.throwIfAborted();
    throw error;
  }
  await discard();
  return undefined;
}

/** The fields of a form as they arrive. */
class SyncForm implements FormFields {
  readonly #folder: string;
  readonly #lists: { readonly path: string; readonly file: WriteStream }[] = [];
  /** The parameters, by their names in lower case. */
  readonly #given = new Map<string, Buffer[]>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  open(name: string): FieldSink | undefined {
    const lower = name.toLowerCase();
    if (lower === "principals") {
      const file = this.#openList();
      return { write: (bytes) => void file.write(bytes) };
    }
    return parameterNames.has(lower) ? this.#openParameter(lower) : undefined;
  }

  async room(): Promise<void> {
    const file = this.#lists.at(-1)?.file;
    if (file === undefined) return;
    if (file.errored !== null) throw file.errored;
    if (file.writableNeedDrain) await once(file, "drain");
  }

  /** The file with the list that was given last, complete; undefined when none was given. */
  async list(): Promise<string | undefined> {
    const last = this.#lists.at(-1);
    last?.file.end();
    if (last !== undefined) await finished(last.file);
    return last?.path;
  }

  /** The parameters of the form, by their names in lower case. @throws {InputError} when one is too long */
  parameters(): Map<string, string> {
    return new Map(
      Array.from(this.#given, ([name, pieces]) => {
        const bytes = Buffer.concat(pieces);
        if (bytes.length > longestParameter) {
          throw new InputError(`${name}: may have ${longestParameter} bytes at the most`);
        }
        return [name, bytes.toString("utf8")];
      }),
    );
  }

  async discard(): Promise<void> {
    for (const { path, file } of this.#lists) {
      await abandon(file);
      await rm(path, { force: true });
    }
  }

  #openList(): WriteStream {
    const path = join(this.#folder, randomUUID());
    // `room` and `list` report its errors.
    const file = createWriteStream(path, { flags: "wx", mode: 0o600 }).on("error", () => undefined);
    this.#lists.at(-1)?.file.end();
    this.#lists.push({ path, file });
    return file;
  }

  #openParameter(name: string): FieldSink {
    const pieces: Buffer[] = [];
    let length = 0;
    this.#given.set(name, pieces);
    return {
      write: (bytes) => {
        // A little more than the limit is enough to refuse it.
        if (length <= longestParameter) pieces.push(Buffer.from(bytes));
        length += bytes.length;
      },
    };
  }
}

/** The names of each parameter, in any case (0.3, B.3). */
const applyNames = ["applyChanges"];
const removeDeletedNames = ["remoteDeleted", "removeDeleted", "removeDelete"];
const defaultPasswordNames = ["defaultPassword", "password"];

/** The names of all parameters in lower case. */
const parameterNames: ReadonlySet<string> = new Set(
  [...applyNames, ...removeDeletedNames, ...defaultPasswordNames].map((name) => name.toLowerCase()),
);

/**
 * Reads the parameters.
 * @param given what the form and the query give, by names in lower case
 * @throws {InputError} when a boolean is none, or two names of one parameter disagree
 */
export function readSyncParameters(given: ReadonlyMap<string, string>): SyncParameters {
  const problems: string[] = [];

  function read<Value>(names: readonly string[], parse: (name: string, text: string) => Value | undefined) {
    const found = names.flatMap((name) => {
      const text = given.get(name.toLowerCase());
      const value = text === undefined ? undefined : parse(name, text);
      return value === undefined ? [] : [{ name, value }];
    });
    const [first] = found;
    const other = found.find(({ value }) => value !== first?.value);
    if (other !== undefined) {
      problems.push(`${first?.name} and ${other.name} are the same parameter and disagree: give one of them`);
    }
    return first?.value;
  }

  function boolean(name: string, text: string): boolean | undefined {
    const lower = text.toLowerCase();
    if (lower === "true" || lower === "false") return lower === "true";
    problems.push(`${name}: must be true or false`);
    return undefined;
  }

  const apply = read(applyNames, boolean) ?? false;
  const removeDeleted = read(removeDeletedNames, boolean) ?? true;
  const defaultPassword = read(defaultPasswordNames, (_, text) => (text === "" ? undefined : text));
  if (problems.length > 0) throw new InputError("The parameters are not valid.", { problems });
  return { apply, removeDeleted, defaultPassword };
}
