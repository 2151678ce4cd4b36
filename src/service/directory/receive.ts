import type { Readable } from "node:stream";
import { InputError } from "#errors.ts";
import { destroyOnAbort } from "#http/exchange.ts";
import { ListPieces } from "#plan/list-pieces.ts";
import type { ListPiece } from "#plan/list-pieces.ts";
import type { ListScan } from "#plan/list-scan.ts";
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
  /** What the elements of the list are. */
  readonly elements: Pick<ListScan, "wrong" | "repeated">;
}

/** The longest value of a parameter other than the list, in bytes. */
const longestParameter = 64 * 1024;

/**
 * A call of `user/sync` while it arrives (B.2 to B.4, 0.3): its form is taken apart, and its list goes to files, piece by
 * piece, until `discard`.
 */
export class SyncUpload implements FormFields {
  /**
   * The whole call. Undefined when it is no form, or has no list: a 415 without a body.
   * @throws {InputError} when a parameter is not what it must be, or the list no JSON array; the signal's reason
   */
  readonly received: Promise<ReceivedSync | undefined>;
  readonly #folder: string;
  readonly #lists: ListPieces[] = [];
  readonly #pieces: Promise<ListPiece>[] = [];
  #isOver = false;
  /** Resolves when there is another piece, or will be none. */
  #more = Promise.withResolvers<void>();
  /** The parameters, by their names in lower case. */
  readonly #given = new Map<string, Buffer[]>();

  /**
   * @param query gives the parameters that the form does not
   * @param folder where the files are
   */
  constructor(
    body: Readable,
    contentType: string | undefined,
    query: URLSearchParams,
    { folder, signal }: { readonly folder: string; readonly signal: AbortSignal },
  ) {
    this.#folder = folder;
    this.received = this.#receive(body, contentType, query, signal).finally(() => {
      this.#isOver = true;
      this.#more.resolve();
    });
    this.received.catch(() => undefined);
  }

  /**
   * The pieces, those to come included, from the first one at each call. One whose `first` is 0 begins the list anew: when
   * several are given, the last one counts.
   */
  async *pieces(): AsyncGenerator<ListPiece> {
    for (let place = 0; ; place++) {
      while (place === this.#pieces.length && !this.#isOver) await this.#more.promise;
      const piece = this.#pieces[place];
      if (piece === undefined) return;
      yield await piece;
    }
  }

  /** Waits for the first piece. @returns false: there will be none */
  async begun(): Promise<boolean> {
    if (this.#pieces.length === 0 && !this.#isOver) await this.#more.promise;
    return this.#pieces.length > 0;
  }

  /** Removes the files, once no more come. Never throws. */
  async discard(): Promise<void> {
    await this.received.catch(() => undefined);
    for (const list of this.#lists) await list.discard().catch(() => undefined);
  }

  open(name: string): FieldSink | undefined {
    const lower = name.toLowerCase();
    if (lower === "principals") {
      this.#lists.at(-1)?.close();
      const list = new ListPieces(this.#folder, (piece) => {
        this.#pieces.push(piece);
        this.#more.resolve();
        this.#more = Promise.withResolvers<void>();
      });
      this.#lists.push(list);
      return list;
    }
    return parameterNames.has(lower) ? this.#openParameter(lower) : undefined;
  }

  async room(): Promise<void> {
    await this.#lists.at(-1)?.room();
  }

  async #receive(
    body: Readable,
    contentType: string | undefined,
    query: URLSearchParams,
    signal: AbortSignal,
  ): Promise<ReceivedSync | undefined> {
    signal.throwIfAborted();
    using _destroying = destroyOnAbort(signal, body);
    try {
      const isForm = await readForm(body, contentType, this);
      const list = this.#lists.at(-1);
      if (!isForm || list === undefined) return undefined;
      const given = new Map([...query].map(([name, value]) => [name.toLowerCase(), value]));
      const parameters = readSyncParameters(new Map([...given, ...this.#parameters()]));
      return { ...parameters, elements: await list.end() };
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }

  /** The parameters of the form, by their names in lower case. @throws {InputError} when one is too long */
  #parameters(): Map<string, string> {
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
