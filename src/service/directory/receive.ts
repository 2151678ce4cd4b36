import { randomUUID } from "node:crypto";
import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import type { Readable } from "node:stream";
import { InputError } from "#errors.ts";
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
  readonly #lists: ListFile[] = [];
  /** The parameters, by their names in lower case. */
  readonly #given = new Map<string, Buffer[]>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  open(name: string): FieldSink | undefined {
    const lower = name.toLowerCase();
    if (lower === "principals") {
      return this.#openList();
    }
    return parameterNames.has(lower) ? this.#openParameter(lower) : undefined;
  }

  async room(): Promise<void> {
    await this.#lists.at(-1)?.room();
  }

  /** The file with the list that was given last, complete; undefined when none was given. */
  async list(): Promise<string | undefined> {
    const last = this.#lists.at(-1);
    await last?.end();
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
    for (const list of this.#lists) await list.discard();
  }

  #openList(): ListFile {
    // Its errors are nobody's: another list has taken its place.
    void this.#lists
      .at(-1)
      ?.end()
      .catch(() => undefined);
    const list = new ListFile(join(this.#folder, randomUUID()));
    this.#lists.push(list);
    return list;
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

/** How many bytes are gathered before they are written. */
const writtenAtOnce = 256 * 1024;

/** The file of a list that is being received. */
class ListFile implements FieldSink {
  readonly path: string;
  readonly #opened: Promise<FileHandle>;
  #gathered = Buffer.allocUnsafe(2 * writtenAtOnce);
  #length = 0;
  /** What is gathered into next, while `gathered` is written. */
  #next = Buffer.allocUnsafe(2 * writtenAtOnce);
  #written: Promise<void>;
  #ended: Promise<void> | undefined;

  constructor(path: string) {
    this.path = path;
    this.#opened = open(path, "wx", 0o600);
    this.#written = this.#opened.then(() => undefined);
    // `room` and `end` report it.
    this.#written.catch(() => undefined);
  }

  write(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#gathered.length) {
      const larger = Buffer.allocUnsafe(2 * length);
      this.#gathered.copy(larger, 0, 0, this.#length);
      this.#gathered = larger;
    }
    bytes.copy(this.#gathered, this.#length);
    this.#length = length;
  }

  /** Resolves when more can be written. @throws when writing has failed */
  async room(): Promise<void> {
    if (this.#length < writtenAtOnce) return;
    await this.#written;
    this.#append();
  }

  /** Writes what is left, and closes the file. */
  end(): Promise<void> {
    this.#ended ??= this.#finish();
    return this.#ended;
  }

  /** Closes and removes the file. */
  async discard(): Promise<void> {
    this.#length = 0;
    await this.end().catch(() => undefined);
    await rm(this.path, { force: true });
  }

  #append(): void {
    const full = this.#gathered;
    const bytes = full.subarray(0, this.#length);
    [this.#gathered, this.#next, this.#length] = [this.#next, full, 0];
    this.#written = this.#opened.then((file) => file.appendFile(bytes));
    this.#written.catch(() => undefined);
  }

  async #finish(): Promise<void> {
    try {
      await this.#written;
      this.#append();
      await this.#written;
    } finally {
      await (await this.#opened).close();
    }
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
