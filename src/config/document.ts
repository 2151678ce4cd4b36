import { dirname, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from "yaml";
import type { Document, Node, Scalar } from "yaml";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import { codeOf, lookedIn, readSmallFile } from "#files/disk.ts";
import { conceal, shortestSecret } from "#redact.ts";
import { decoded } from "#text.ts";
import { isObject } from "#values.ts";
import type { Path, Problem } from "./problems.ts";
import { refuse, syntaxProblems } from "./problems.ts";
import { notText, reason, substitute, verbatim } from "./substitution.ts";
import type { Substituted, SubstitutionSources } from "./substitution.ts";

/** What a problem points at: a key, its value, or, for a missing key, the mapping that lacks it. */
type Pointer = "key" | "value" | "parent";

/** Where a file's text and the values of its substitutions come from. */
export interface TextOptions {
  /** The variables for `${env:NAME}`. Default: the process's. */
  readonly environment?: NodeJS.ProcessEnv;
  /** The text of the file as it was read before. Absent: it is read. */
  readonly text?: string | undefined;
}

/**
 * Reads a configuration file as values with places; substitutions that failed are among its problems.
 * @returns the file's absolute path, its folder and its text besides
 * @throws {InputError} it cannot be read, is empty, or is not YAML
 */
export function readConfiguration(
  file: string,
  { text = read(file), environment = process.env }: TextOptions,
): {
  readonly absolute: string;
  readonly folder: string;
  readonly text: string;
  readonly document: ConfigurationDocument;
} {
  const absolute = resolve(file);
  const folder = dirname(absolute);
  const document = new ConfigurationDocument(text, { folder, environment });
  if (!document.readable) refuse(file, document.problems, document.secrets);
  if (document.value === null)
    throw new InputError(`${file} is empty; the shortest configuration is the line \`service:\``);
  return { absolute, folder, text, document };
}

/** The longest file, in bytes. */
const longest = 1024 ** 2;

function read(file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(readSmallFile(file, longest));
  } catch (error) {
    if (codeOf(error) === "ENOENT")
      throw new InputError(
        `${file} does not exist ${lookedIn(resolve(file))}; name another configuration with --config FILE, or write one with \`${command("init")}\``,
        { cause: error },
      );
    const why = reason(error);
    const advice = why === notText ? "save it as UTF-8" : "name the configuration with --config FILE";
    throw new InputError(`${file} cannot be read: ${why}; ${advice}`, { cause: error });
  }
}

/** The keys of a mapping; none if there is no mapping. */
export function keysOf(document: ConfigurationDocument, path: Path): string[] {
  const value = document.at(path);
  return isObject(value) ? Object.keys(value) : [];
}

/** What stands for a text of the document. */
export type Fill = (text: string, path: Path) => Substituted;

/** A YAML text as plain values, with the place of each. Whatever is wrong with it is a problem, never an error. */
export class ConfigurationDocument {
  /** The values, with substitutions filled in. Incomplete when there are problems. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** Every value that was filled in, and every text under a key for secrets. */
  readonly secrets: readonly string[];
  /** The values under keys for secrets that are too short to be masked wherever they appear. */
  readonly shortSecrets: readonly Problem[];
  /** False: the text is not YAML, and `value` is meaningless. */
  readonly readable: boolean;
  readonly #counter = new LineCounter();
  readonly #places: ReadonlyMap<string, Place>;

  /**
   * @param sources where substituted values come from, or what fills them in; undefined: nothing does, and `${` is plain
   *   text
   */
  constructor(text: string, sources: SubstitutionSources | Fill | undefined) {
    const document = parseDocument(text, {
      lineCounter: this.#counter,
      prettyErrors: false,
      uniqueKeys: false,
      keepSourceTokens: false,
    });
    const problems = syntaxProblems(document, text, this.#counter);
    this.readable = problems.length === 0;
    const conversion = new Conversion(document, text, fillFrom(sources), (offset) => this.#position(offset));
    this.value = this.readable ? conversion.convert(document.contents, [], undefined, 0) : undefined;
    this.problems = [...problems, ...conversion.problems];
    this.secrets = [...conversion.secrets];
    this.shortSecrets = conversion.shortSecrets;
    this.#places = conversion.places;
    // A text that somebody tries is filled in otherwise, and has no secrets of its own.
    if (typeof sources === "object") conceal(this.secrets);
  }

  problem(path: Path, pointer: Pointer, message: string): Problem {
    return { ...this.#position(this.#pointed(path, pointer)), path, message };
  }

  /** A problem `offset` characters into a text value, or at its start if that place is unknown. */
  problemWithin(path: Path, offset: number | undefined, message: string): Problem {
    const start = this.#place(path)?.verbatim;
    if (start === undefined || offset === undefined) return this.problem(path, "value", message);
    return { ...this.#position(start + offset), path, message };
  }

  /** The value at a path; undefined where there is none. */
  at(path: Path): unknown {
    return path.reduce<unknown>(
      (found, step) =>
        typeof found === "object" && found !== null && Object.hasOwn(found, step)
          ? (found as Record<string | number, unknown>)[step]
          : undefined,
      this.value,
    );
  }

  /** The substitutions a value came from. */
  origins(path: Path): readonly string[] {
    return this.#place(path)?.substituted?.origins ?? [];
  }

  /** Whether the value is one substitution and nothing else. */
  substituted(path: Path): boolean {
    return this.#place(path)?.substituted?.whole ?? false;
  }

  /** Whether a substitution in the value failed; its problem is reported already. */
  broken(path: Path): boolean {
    return (
      (this.#place(path)?.substituted?.problems.length ?? 0) > 0 ||
      (this.at(path) === undefined && this.problems.some((found) => isDeepStrictEqual(found.path, path)))
    );
  }

  /** Whether the value must not be shown. */
  secret(path: Path): boolean {
    return (
      (this.#place(path)?.substituted?.secrets.length ?? 0) > 0 ||
      isSecretPath(path) ||
      credentialsIn(this.at(path), path).length > 0
    );
  }

  #place(path: Path): Place | undefined {
    return this.#places.get(JSON.stringify(path));
  }

  #pointed(path: Path, pointer: Pointer): number {
    const found = this.#place(path);
    if (pointer === "parent" || found === undefined) {
      const parent = this.#place(path.slice(0, -1));
      return parent?.key ?? parent?.value ?? 0;
    }
    return pointer === "key" ? (found.key ?? found.value) : found.value;
  }

  #position(offset: number): Position {
    const { line, col } = this.#counter.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  }
}

type Position = Pick<Problem, "line" | "column">;

/** How much all substitutions together may bring in: an alias may repeat them. */
const longestFill = 1024 ** 2;

function fillFrom(sources: SubstitutionSources | Fill | undefined): Fill {
  if (sources === undefined) return verbatim;
  if (typeof sources === "function") return sources;
  let room = longestFill;
  return (text) => {
    const filled = substitute(text, { ...sources, room });
    room -= filled.secrets.reduce((sum, { length }) => sum + length, 0);
    return filled;
  };
}

/** A value's place in the file, as offsets. */
interface Place {
  readonly key: number | undefined;
  readonly value: number;
  /** The offset of its first character, if the file has all its characters unchanged on one line. */
  readonly verbatim: number | undefined;
  readonly substituted: Substituted | undefined;
}

const secretKey = /(?:password|passphrase|secret|tokens?|bearer|api-?key)$/i;

/** Sections whose keys are names that the user chose: they say nothing about the values. */
const named: ReadonlySet<unknown> = new Set(["targets", "sources", "syncs", "notifications"]);

/**
 * Whether the value at a path is secret. The URL of a webhook is: anyone who knows it may post there.
 */
export function isSecretPath(path: Path): boolean {
  const [section, , key] = path;
  if ((section === "notifications" && key === "url") || (section === "syncs" && key === "heartbeat")) return true;
  const keys = ownKeys(path);
  // A header of the user's own choice may authenticate.
  if (keys.slice(0, -1).includes("headers")) return true;
  // Where a token is, or comes from, is no secret.
  if (keys.at(-1) === "file" || isAddress(path)) return false;
  return keys.some((step) => typeof step === "string" && secretKey.test(step));
}

/** Without names that the user chose. */
function ownKeys(path: Path): Path {
  return path.slice(named.has(path[0]) ? 2 : 1);
}

const address = /(?:url|proxy|postgres|endpoint|server)$/i;

function isAddress(path: Path): boolean {
  const key = path.findLast((step) => typeof step === "string") ?? "";
  return address.test(key) || ownKeys(path).includes("endpoints");
}

/** Parameters of URLs that hold a secret, as in JDBC's. */
const secretParameter =
  /[?&;](?:pass(?:word|wd)|pwd|(?:client_)?secret|(?:access_)?token|api[-_]?key|sig)=([^&;#\s{]+)/gi;

/**
 * The user and the password of a URL, as written, decoded and in base64, and the secrets among its parameters; none
 * without a password.
 */
function credentialsIn(value: unknown, path: Path): string[] {
  if (typeof value !== "string") return [];
  const parameters = [...value.matchAll(secretParameter)].flatMap(([, secret = ""]) => [
    secret,
    decoded(secret) ?? secret,
  ]);
  return [...loginIn(value, path), ...parameters];
}

function loginIn(value: string, path: Path): string[] {
  // Its scheme may be missing or wrong. Where no address is due, there may be one by mistake.
  const pattern = isAddress(path) ? /^(?:.*?:?\/+)?(.*:.*)@/s : /^[^\s/]*\/\/(\S*:\S*)@/;
  const written = pattern.exec(value)?.[1];
  if (written === undefined) return [];
  const password = written.slice(written.indexOf(":") + 1);
  const basic = Buffer.from(decoded(written) ?? written).toString("base64");
  return [written, password, decoded(password) ?? password, basic].filter((secret) => secret !== "");
}

const limits = { depth: 50, values: 20_000 };
const tooMuch = "too many values, or nested too deeply; is an alias inside its own anchor?";

/** A mapping of the parsed text. */
interface Mapping {
  readonly items: readonly { readonly key: unknown; readonly value: unknown }[];
}

/** The key of YAML 1.1 that takes over the keys of another mapping; in quotation marks it is a name. */
function isMergeKey(key: unknown): boolean {
  return isScalar(key) && key.type === "PLAIN" && key.source === "<<";
}

/** The document's values as plain objects, lists and scalars: the library's `toJS`, with the place of each value. */
class Conversion {
  readonly places = new Map<string, Place>();
  readonly problems: Problem[] = [];
  readonly secrets = new Set<string>();
  readonly shortSecrets: Problem[] = [];
  readonly #document: Document;
  readonly #text: string;
  readonly #fill: Fill;
  readonly #position: (offset: number) => Position;
  #values = 0;

  constructor(document: Document, text: string, fill: Fill, position: (offset: number) => Position) {
    this.#document = document;
    this.#text = text;
    this.#fill = fill;
    this.#position = position;
  }

  /** `from` is the place of an empty node; `alias` the place where a node is referred to. */
  convert(node: unknown, path: Path, key: number | undefined, from: number, alias?: number): unknown {
    const offset = alias ?? offsetOf(node, from);
    this.#values += 1;
    if (this.#values > limits.values || path.length > limits.depth) {
      if (this.#values <= limits.values + 1 || path.length > limits.depth) this.#problem([], offset, tooMuch);
      return undefined;
    }
    if (isAlias(node)) {
      const target = node.resolve(this.#document);
      if (target !== undefined) return this.convert(target, path, key, from, offset);
      const message = "a value that starts with * needs quotes around it (or names an anchor that does not exist)";
      this.#problem(path, offset, message);
      return undefined;
    }
    if (isScalar(node) || node === null || node === undefined) return this.#scalar(node, path, key, offset);
    this.#place(path, { key, value: offset, verbatim: undefined, substituted: undefined });
    if (isMap(node)) return this.#mapping(node, path, offset);
    if (isSeq(node)) return node.items.map((item, index) => this.convert(item, [...path, index], undefined, offset));
    return undefined;
  }

  #mapping(node: Mapping, path: Path, offset: number): unknown {
    const result: Record<string, unknown> = {};
    const lines = new Map<string, number>();
    for (const { key, value } of node.items) {
      if (isMergeKey(key)) continue;
      const keyOffset = offsetOf(key, offset);
      const name = nameOf(key);
      if (name === undefined) {
        this.#problem(path, keyOffset, "expected a key: a word followed by a colon and a space");
        continue;
      }
      const first = lines.get(name);
      if (first !== undefined) {
        this.#problem([...path, name], keyOffset, `written twice (first on line ${first}); remove one`);
        continue;
      }
      lines.set(name, this.#position(keyOffset).line);
      result[name] = this.convert(value, [...path, name], keyOffset, keyOffset);
    }
    for (const { key, value } of this.#merged(node, path, offset, [])) {
      const name = nameOf(key);
      const keyOffset = offsetOf(key, offset);
      if (name !== undefined && !Object.hasOwn(result, name))
        result[name] = this.convert(value, [...path, name], keyOffset, keyOffset);
    }
    return result;
  }

  /** What `<<: *base` or `<<: [*one, *two]` brings into a mapping: the mapping's own keys and earlier ones come first. */
  #merged(node: Mapping, path: Path, offset: number, within: readonly Mapping[]): Mapping["items"] {
    const merges = node.items.filter(({ key }) => isMergeKey(key));
    const parts = merges.flatMap(({ value }): unknown[] => (isSeq(value) ? value.items : [value]));
    return parts.flatMap((part) => {
      const source = isAlias(part) ? part.resolve(this.#document) : part;
      const place = offsetOf(part, offset);
      if (!isMap(source)) {
        this.#problem(path, place, "<< takes a mapping, like *name of one that has &name, or a list of them");
        return [];
      }
      this.#values += 1;
      const isWithin = within.includes(source);
      if (isWithin || this.#values === limits.values + 1) this.#problem([], place, tooMuch);
      if (isWithin || this.#values > limits.values) return [];
      const own: Mapping["items"] = source.items.filter((item) => !isMergeKey(item.key));
      return own.concat(this.#merged(source, path, place, within.concat(source)));
    });
  }

  #scalar(node: unknown, path: Path, key: number | undefined, offset: number): unknown {
    const found = isScalar(node) ? node : undefined;
    if (typeof found?.value === "string") return this.#filled(found, found.value, path, key, offset);
    // An empty value has no place; its key does.
    const isEmpty = found === undefined || (found.value === null && (found.source ?? "") === "");
    const value = isEmpty ? (key ?? offset) : offset;
    this.#place(path, { key, value, verbatim: undefined, substituted: undefined });
    if (found === undefined || found.value === null || typeof found.value === "boolean") return found?.value ?? null;
    if (isSecretPath(path) && found.source !== undefined) this.#addSecrets([found.source], path, offset);
    return typeof found.value === "number" ? found.value : found.source;
  }

  #filled({ type }: Scalar, written: string, path: Path, key: number | undefined, offset: number): string {
    const substituted = this.#fill(written, path);
    const { text } = substituted;
    for (const message of substituted.problems) this.#problem(path, offset, message);
    for (const secret of substituted.secrets) this.secrets.add(secret);
    if (isSecretPath(path) && text !== "") this.#addSecrets([text], path, offset);
    this.#addSecrets(credentialsIn(text, path), path, offset);
    const start = offset + (type === "PLAIN" ? 0 : 1);
    const isBlock = type === "BLOCK_FOLDED" || type === "BLOCK_LITERAL";
    const isVerbatim = !isBlock && text === written && this.#text.startsWith(written, start);
    this.#place(path, { key, value: offset, verbatim: isVerbatim ? start : undefined, substituted });
    return text;
  }

  #addSecrets(secrets: readonly string[], path: Path, offset: number): void {
    for (const secret of secrets) this.secrets.add(secret);
    // A header's value need not be one.
    if (path.includes("headers") || secrets.every((secret) => secret.length >= shortestSecret)) return;
    const message = `a secret of less than ${shortestSecret} characters is easy to guess, and masked only where a secret is due; use a longer one`;
    this.shortSecrets.push({ ...this.#position(offset), path, message });
  }

  #place(path: Path, place: Place): void {
    this.places.set(JSON.stringify(path), place);
  }

  #problem(path: Path, offset: number, message: string): void {
    this.problems.push({ ...this.#position(offset), path, message });
  }
}

function offsetOf(node: unknown, otherwise: number): number {
  return (node as Node | null)?.range?.[0] ?? otherwise;
}

/** The name that a key of a mapping is; undefined: it is none. */
function nameOf(key: unknown): string | undefined {
  const name = isScalar(key) && key.value !== null ? key.source : undefined;
  return name === "__proto__" ? undefined : name;
}
