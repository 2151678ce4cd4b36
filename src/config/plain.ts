import { isAlias, isMap, isScalar, isSeq } from "yaml";
import type { Document, Node } from "yaml";
import type { Path } from "./problem.ts";
import type { Substituted } from "./substitution.ts";

/** A value of the file and where it stands. */
export interface Place {
  readonly key: number | undefined;
  readonly value: number;
  /** Offset of the value's first character where every character of it stands as it is, on one line. */
  readonly verbatim: number | undefined;
  readonly substituted: Substituted | undefined;
}

/** What is told what the walk finds. */
interface Collector {
  place(path: Path, place: Place): void;
  fill(text: string): Substituted;
  secret(value: string): void;
  problem(path: Path, offset: number, message: string): void;
  line(offset: number): number;
  readonly text: string;
}

const secretKey = /(?:password|passphrase|secret|token|bearer|api-?key)$/i;

/** Sections of names that the user chose: those say nothing about what stands there. */
const named: ReadonlySet<unknown> = new Set(["targets", "sources", "syncs", "notifications"]);

/**
 * Whether what stands at a path is to be kept secret.
 * Whoever knows the address of a webhook may use it.
 */
export function isSecretPath(path: Path): boolean {
  const [section, , key] = path;
  if ((section === "notifications" && key === "url") || (section === "syncs" && key === "heartbeat")) return true;
  const keys = path.slice(named.has(section) ? 2 : 1);
  // What goes into a header of one's own choice is there to be believed.
  const isHeader = keys.slice(0, -1).includes("headers");
  return isHeader || keys.some((step) => typeof step === "string" && secretKey.test(step));
}

const limits = { depth: 50, values: 20_000 };

/** The document's values as plain objects, lists and scalars. What the library's `toJS` does, with places kept. */
export function plainValue(document: Document, collector: Collector): unknown {
  let values = 0;

  /** `from` is where an empty node stands; `alias` where the node is only referred to, so that it stands there. */
  const convert = (node: unknown, path: Path, key: number | undefined, from: number, alias?: number): unknown => {
    const offset = alias ?? (node as Node | null)?.range?.[0] ?? from;
    values += 1;
    if (values > limits.values || path.length > limits.depth) {
      if (values <= limits.values + 1 || path.length > limits.depth)
        collector.problem([], offset, "too much in one configuration; is an alias inside its own anchor?");
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

  const mapping = (
    node: { items: readonly { key: unknown; value: unknown }[] },
    path: Path,
    offset: number,
  ): unknown => {
    const result: Record<string, unknown> = {};
    const lines = new Map<string, number>();
    for (const { key, value } of node.items) {
      const keyOffset = (key as Node | null)?.range?.[0] ?? offset;
      const name = isScalar(key) && key.value !== null ? key.source : undefined;
      if (name === undefined || name === "__proto__") {
        collector.problem(path, keyOffset, "expected a key: a word followed by a colon and a space");
        continue;
      }
      const first = lines.get(name);
      if (first !== undefined) {
        collector.problem([...path, name], keyOffset, `written twice (first in line ${first}); remove one`);
        continue;
      }
      lines.set(name, collector.line(keyOffset));
      result[name] = convert(value, [...path, name], keyOffset, keyOffset);
    }
    return result;
  };

  const scalar = (node: unknown, path: Path, key: number | undefined, offset: number): unknown => {
    const found = isScalar(node) ? node : undefined;
    const secretPlace = isSecretPath(path);
    if (typeof found?.value !== "string") {
      // An empty value stands nowhere: its key does.
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
    const substituted = collector.fill(found.value);
    for (const message of substituted.problems) collector.problem(path, offset, message);
    for (const secret of substituted.secrets) collector.secret(secret);
    if (secretPlace && substituted.text !== "") collector.secret(substituted.text);
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
