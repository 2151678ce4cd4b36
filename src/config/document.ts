import { dirname, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from "yaml";
import type { Document, Node } from "yaml";
import { InputError } from "#errors.ts";
import { codeOf, lookedIn, readSmallFile } from "#files/disk.ts";
import { conceal } from "#redact.ts";
import type { Path, Problem } from "./problems.ts";
import { refuse, syntaxProblems } from "./problems.ts";
import { notText, reason, substitute, verbatim } from "./substitution.ts";
import type { Substituted, SubstitutionSources } from "./substitution.ts";

/** What a problem points at: a key, its value, or, for a missing key, the mapping that lacks it. */
type Pointer = "key" | "value" | "parent";

/** A YAML file as plain values, with the place of each. */
export interface ConfigurationDocument {
  /** The values, with substitutions filled in. Incomplete when there are problems. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** Every value that was filled in, and every text under a key for secrets. */
  readonly secrets: readonly string[];
  /** False: the text is not YAML, and `value` is meaningless. */
  readonly readable: boolean;
  problem(path: Path, pointer: Pointer, message: string): Problem;
  /** A problem `offset` characters into a text value, or at its start if that place is unknown. */
  problemWithin(path: Path, offset: number | undefined, message: string): Problem;
  /** The value at a path; undefined where there is none. */
  at(path: Path): unknown;
  /** The substitutions a value came from. */
  origins(path: Path): readonly string[];
  /** Whether the value is one substitution and nothing else. */
  substituted(path: Path): boolean;
  /** Whether a substitution in the value failed; its problem is reported already. */
  broken(path: Path): boolean;
  /** Whether the value must not be shown. */
  secret(path: Path): boolean;
}

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
  const document = readDocument(text, { folder, environment });
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
        `${file} does not exist ${lookedIn(resolve(file))}; name another configuration with --config FILE`,
        {
          cause: error,
        },
      );
    const why = reason(error);
    const advice = why === notText ? "save it as UTF-8" : "name the configuration with --config FILE";
    throw new InputError(`${file} cannot be read: ${why}; ${advice}`, { cause: error });
  }
}

/** The keys of a mapping; none if there is no mapping. */
export function keysOf(document: ConfigurationDocument, path: Path): string[] {
  const value = document.at(path);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
}

/** What stands for a text of the document. */
export type Fill = (text: string, path: Path) => Substituted;

/**
 * Reads a YAML text. Whatever is wrong with its YAML or its substitutions becomes a problem, never an error.
 * @param sources where substituted values come from, or what fills them in; undefined: nothing does, and `${` is plain text
 */
export function readDocument(text: string, sources: SubstitutionSources | Fill | undefined): ConfigurationDocument {
  const counter = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: counter,
    prettyErrors: false,
    uniqueKeys: false,
    keepSourceTokens: false,
  });
  const places = new Map<string, Place>();
  const problems = syntaxProblems(document, text, counter);
  const readable = problems.length === 0;
  const secrets = new Set<string>();
  const position = (offset: number): { line: number; column: number } => {
    const { line, col } = counter.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const place = (path: Path): Place | undefined => places.get(JSON.stringify(path));
  const pointed = (path: Path, pointer: Pointer): number => {
    const found = place(path);
    if (pointer === "parent" || found === undefined) {
      const parent = place(path.slice(0, -1));
      return parent?.key ?? parent?.value ?? 0;
    }
    return pointer === "key" ? (found.key ?? found.value) : found.value;
  };
  const problem = (path: Path, pointer: Pointer, message: string): Problem => ({
    ...position(pointed(path, pointer)),
    path,
    message,
  });
  let room = longestFill;
  const fill: Fill = (source, path) => {
    if (sources === undefined) return verbatim(source);
    if (typeof sources === "function") return sources(source, path);
    const filled = substitute(source, { ...sources, room });
    room -= filled.secrets.reduce((sum, { length }) => sum + length, 0);
    return filled;
  };
  const value = readable
    ? plainValue(document, {
        place: (path, where) => places.set(JSON.stringify(path), where),
        fill,
        secret: (found) => secrets.add(found),
        problem: (path, offset, message) => problems.push({ ...position(offset), path, message }),
        line: (offset) => position(offset).line,
        text,
      })
    : undefined;
  // A text that somebody tries is filled in otherwise, and has no secrets of its own.
  if (typeof sources === "object") conceal([...secrets]);
  const at = (path: Path): unknown =>
    path.reduce<unknown>(
      (found, step) =>
        typeof found === "object" && found !== null && Object.hasOwn(found, step)
          ? (found as Record<string | number, unknown>)[step]
          : undefined,
      value,
    );
  return {
    value,
    problems,
    secrets: [...secrets],
    readable,
    problem,
    problemWithin: (path, offset, message) => {
      const start = place(path)?.verbatim;
      if (start === undefined || offset === undefined) return problem(path, "value", message);
      return { ...position(start + offset), path, message };
    },
    at,
    origins: (path) => place(path)?.substituted?.origins ?? [],
    substituted: (path) => place(path)?.substituted?.whole ?? false,
    secret: (path) =>
      (place(path)?.substituted?.secrets.length ?? 0) > 0 ||
      isSecretPath(path) ||
      credentialsIn(at(path), path).length > 0,
    broken: (path) =>
      (place(path)?.substituted?.problems.length ?? 0) > 0 ||
      (at(path) === undefined && problems.some((found) => isDeepStrictEqual(found.path, path))),
  };
}

/** A value's place in the file, as offsets. */
export interface Place {
  readonly key: number | undefined;
  readonly value: number;
  /** The offset of its first character, if the file has all its characters unchanged on one line. */
  readonly verbatim: number | undefined;
  readonly substituted: Substituted | undefined;
}

/** Receives what the conversion finds. */
interface Collector {
  place(path: Path, place: Place): void;
  readonly fill: Fill;
  secret(value: string): void;
  problem(path: Path, offset: number, message: string): void;
  line(offset: number): number;
  readonly text: string;
}

const secretKey = /(?:password|passphrase|secret|token|bearer|api-?key)$/i;

/** Sections whose keys are names that the user chose: they say nothing about the values. */
const named: ReadonlySet<unknown> = new Set(["targets", "sources", "syncs", "notifications"]);

/**
 * Whether the value at a path is secret. The URL of a webhook is: whoever knows it may post there.
 */
export function isSecretPath(path: Path): boolean {
  const [section, , key] = path;
  if ((section === "notifications" && key === "url") || (section === "syncs" && key === "heartbeat")) return true;
  const keys = path.slice(named.has(section) ? 2 : 1);
  // A header of the user's own choice may authenticate.
  const isHeader = keys.slice(0, -1).includes("headers");
  return isHeader || keys.some((step) => typeof step === "string" && secretKey.test(step));
}

/** Keys of addresses. */
const address = /(?:url|proxy|postgres|endpoint|server)$/i;

/** The user and the password of a URL, as written, decoded and in base64; none without a password. */
function credentialsIn(value: unknown, path: Path): string[] {
  if (typeof value !== "string") return [];
  // Its scheme may be missing or wrong. Where no address is due, there may be one by mistake.
  const key = path.findLast((step) => typeof step === "string") ?? "";
  const pattern = address.test(key) ? /^(?:.*?:?\/+)?(.*:.*)@/s : /^[^\s/]*\/\/(\S*:\S*)@/;
  const written = pattern.exec(value)?.[1];
  if (written === undefined) return [];
  const password = written.slice(written.indexOf(":") + 1);
  const basic = Buffer.from(decoded(written)).toString("base64");
  return [written, password, decoded(password), basic].filter((secret) => secret !== "");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** How much all substitutions together may bring in: an alias may repeat them. */
const longestFill = 1024 ** 2;

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
function plainValue(document: Document, collector: Collector): unknown {
  let values = 0;

  /** `from` is the place of an empty node; `alias` the place where a node is referred to. */
  const convert = (node: unknown, path: Path, key: number | undefined, from: number, alias?: number): unknown => {
    const offset = alias ?? (node as Node | null)?.range?.[0] ?? from;
    values += 1;
    if (values > limits.values || path.length > limits.depth) {
      if (values <= limits.values + 1 || path.length > limits.depth) collector.problem([], offset, tooMuch);
      return undefined;
    }
    if (isAlias(node)) {
      const target = node.resolve(document);
      if (target === undefined) {
        collector.problem(
          path,
          offset,
          "a value that starts with * needs quotes around it (or names an anchor that does not exist)",
        );
        return undefined;
      }
      return convert(target, path, key, from, offset);
    }
    if (isScalar(node) || node === null || node === undefined) return scalar(node, path, key, offset);
    collector.place(path, { key, value: offset, verbatim: undefined, substituted: undefined });
    if (isMap(node)) return mapping(node, path, offset);
    if (isSeq(node)) {
      return node.items.map((item, index) => convert(item, [...path, index], undefined, offset));
    }
    return undefined;
  };

  const mapping = (node: Mapping, path: Path, offset: number): unknown => {
    const result: Record<string, unknown> = {};
    const lines = new Map<string, number>();
    for (const { key, value } of node.items) {
      if (isMergeKey(key)) continue;
      const keyOffset = (key as Node | null)?.range?.[0] ?? offset;
      const name = isScalar(key) && key.value !== null ? key.source : undefined;
      if (name === undefined || name === "__proto__") {
        collector.problem(path, keyOffset, "expected a key: a word followed by a colon and a space");
        continue;
      }
      const first = lines.get(name);
      if (first !== undefined) {
        collector.problem([...path, name], keyOffset, `written twice (first on line ${first}); remove one`);
        continue;
      }
      lines.set(name, collector.line(keyOffset));
      result[name] = convert(value, [...path, name], keyOffset, keyOffset);
    }
    for (const { key, value } of merged(node, path, offset, [])) {
      const name = isScalar(key) && key.value !== null ? key.source : undefined;
      const keyOffset = (key as Node | null)?.range?.[0] ?? offset;
      if (name !== undefined && name !== "__proto__" && !Object.hasOwn(result, name))
        result[name] = convert(value, [...path, name], keyOffset, keyOffset);
    }
    return result;
  };

  /** What `<<: *base` or `<<: [*one, *two]` brings into a mapping: the mapping's own keys and earlier ones come first. */
  const merged = (node: Mapping, path: Path, offset: number, within: readonly Mapping[]): Mapping["items"] =>
    node.items.flatMap(({ key, value }) => {
      if (!isMergeKey(key)) return [];
      return (isSeq(value) ? value.items : [value]).flatMap((each) => {
        const source = isAlias(each) ? each.resolve(document) : each;
        const place = (each as Node | null)?.range?.[0] ?? offset;
        if (!isMap(source)) {
          collector.problem(path, place, "<< takes a mapping, like *name of one that has &name, or a list of them");
          return [];
        }
        values += 1;
        const isWithin = within.includes(source);
        if (isWithin || values === limits.values + 1) collector.problem([], place, tooMuch);
        if (isWithin || values > limits.values) return [];
        const own = source.items.filter((item) => !isMergeKey(item.key));
        const further = merged(source, path, place, within.concat(source));
        return (own as Mapping["items"]).concat(further);
      });
    });

  const scalar = (node: unknown, path: Path, key: number | undefined, offset: number): unknown => {
    const found = isScalar(node) ? node : undefined;
    const secretPlace = isSecretPath(path);
    if (typeof found?.value !== "string") {
      // An empty value has no place; its key does.
      const empty = found === undefined || (found.value === null && (found.source ?? "") === "");
      collector.place(path, {
        key,
        value: empty ? (key ?? offset) : offset,
        verbatim: undefined,
        substituted: undefined,
      });
      if (found === undefined || found.value === null || typeof found.value === "boolean") return found?.value ?? null;
      if (secretPlace && found.source !== undefined) collector.secret(found.source);
      return typeof found.value === "number" ? found.value : found.source;
    }
    const substituted = collector.fill(found.value, path);
    for (const message of substituted.problems) collector.problem(path, offset, message);
    for (const secret of substituted.secrets) collector.secret(secret);
    if (secretPlace && substituted.text !== "") collector.secret(substituted.text);
    for (const secret of credentialsIn(substituted.text, path)) collector.secret(secret);
    const quoted = found.type === "PLAIN" ? 0 : 1;
    const start = offset + quoted;
    const verbatim =
      found.type !== "BLOCK_FOLDED" &&
      found.type !== "BLOCK_LITERAL" &&
      substituted.text === found.value &&
      collector.text.startsWith(found.value, start);
    collector.place(path, { key, value: offset, verbatim: verbatim ? start : undefined, substituted });
    return substituted.text;
  };

  return convert(document.contents, [], undefined, 0);
}
