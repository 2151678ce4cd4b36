import type { OpenContext, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError, messageOf } from "#errors.ts";
import { foreignContent, tellingBytes } from "#files/content.ts";
import { contentOf, digestOf, OpenFiles } from "#files/source-file.ts";
import type { OpenFile } from "#files/source-file.ts";
import { dnKey, dnKeys, isWithin } from "#principals/dn.ts";
import type { Kind } from "#principals/principal.ts";
import { LdifReader } from "./ldif.ts";
import type { LdifEntry } from "./ldif.ts";
import { matcherOf } from "./matching.ts";
import { parseReference, partOptions } from "./options.ts";
import type { Options, PartOptions } from "./options.ts";
import { isIgnored } from "./referrals.ts";
import type { Query } from "./search.ts";

/** Messages are handed on when there are so many bytes of them. */
const atOnce = 64 * 1024;

/** LDIF files that are searched like a server. Each search reads them from the start to the end. */
export class LdifFiles {
  readonly options: Options;
  /** The start of messages: `source corp, people.ldif`. */
  readonly place: string;
  readonly #files: OpenFiles;
  readonly #signal: AbortSignal;

  /** @throws {IncompleteReadError} a file is missing, or is still being written */
  static async open(options: Options, open: OpenContext, { signal }: ReadContext): Promise<LdifFiles> {
    signal.throwIfAborted();
    return new LdifFiles(options, open.name, await OpenFiles.open(options.file ?? [], open, options, signal), signal);
  }

  private constructor(options: Options, name: string, files: OpenFiles, signal: AbortSignal) {
    this.options = options;
    this.place = placeOf(name, options);
    this.#files = files;
    this.#signal = signal;
  }

  /**
   * The entries that a query finds, as a server would send them; all their attributes.
   * @throws {IncompleteReadError} a file does not prove that it is whole, or has changed
   * @throws {InputError} a file is not LDIF, holds changes, or parts of values; the message names file and line
   */
  async *search({ base, scope, filter }: Query): AsyncGenerator<readonly Buffer[]> {
    const matches = matcherOf(filter, this.options);
    const isInScope = scopeMatcher(dnKey(base), scope);
    for (const file of this.#files.files) {
      try {
        let messages: Buffer[] = [];
        let size = 0;
        for await (const entries of this.#entriesOf(file)) {
          for (const entry of entries) {
            if (!matches(entry) || !isInScope(entry.dn)) continue;
            const message = entry.message();
            messages.push(message);
            size += message.length;
          }
          if (size < atOnce) continue;
          yield messages;
          [messages, size] = [[], 0];
        }
        yield messages;
      } catch (error) {
        this.#signal.throwIfAborted();
        // A file that changed may look malformed; then report the change.
        await file.assertUnchanged();
        throw error;
      }
    }
    await this.#files.assertUnchanged();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#files[Symbol.asyncDispose]();
  }

  async *#entriesOf(file: OpenFile): AsyncGenerator<readonly LdifEntry[]> {
    const content = foreignContent(await file.head(tellingBytes), true);
    if (content !== undefined && !content.is.includes("gzip"))
      throw new InputError(`${file.name} is ${content.is}, not LDIF in UTF-8; ${content.advice}`);
    const reader = new LdifReader(file.name, (url) => {
      const reference = parseReference(url);
      return reference !== undefined && isIgnored(reference, this.options);
    });
    for await (const bytes of contentOf(file, () => `${file.name}:${reader.line}`, this.#signal))
      yield reader.read(bytes);
    reader.end();
    const kinds: readonly Kind[] = this.options.groups === undefined ? ["user"] : ["user", "group"];
    const unbounded = kinds.filter((kind) => !isBounded(partOptions(kind, this.options)));
    if (reader.proof.isGiven || unbounded.length === 0) return;
    throw new IncompleteReadError(
      `${file.name}:${reader.line}: the file does not say how many entries it has, so it may be cut off; export with ldapsearch (without -L) or ldbsearch, which write a count, or set ${unbounded.map((kind) => `${kind}s.minEntries`).join(" and ")} to the fewest there can be, at least 2`,
    );
  }
}

/** Whether a minimum says more than that there is something. */
function isBounded({ minEntries, base }: PartOptions): boolean {
  return minEntries > 1 || (base.length > 0 && base.every((one) => one.minEntries > 0));
}

/** The filters that only a server can evaluate. */
export function filterProblems(options: Options): readonly { path: string[]; message: string }[] {
  return (["users", "groups"] as const).flatMap((kind) => {
    const filter = options[kind]?.filter;
    try {
      if (filter !== undefined) matcherOf(filter, options);
      return [];
    } catch (error) {
      return [{ path: [kind, "filter"], message: messageOf(error) }];
    }
  });
}

/** The start of messages about files. */
export function placeOf(name: string, { file = [] }: Options): string {
  return `source ${name}, ${file.join(", ")}`;
}

/** A digest of the files. */
export function version(options: Options, open: OpenContext, { signal }: ReadContext): Promise<string> {
  return digestOf([{ names: options.file ?? [], checks: options }], open, signal);
}

function scopeMatcher(base: string, scope: Query["scope"]): (dn: string) => boolean {
  if (base === "" && scope === "sub") return () => true;
  const keyOf = dnKeys();
  const below = base === "" ? 0 : base.length + 1;
  return (dn) => {
    const key = keyOf(dn);
    if (scope === "base") return key === base;
    if (!isWithin(key, base)) return false;
    // A comma within a value is escaped in a key, as are all that are special.
    return scope === "sub" || (key !== base && !key.slice(0, key.length - below).includes(","));
  };
}
