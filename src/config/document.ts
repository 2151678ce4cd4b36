import { isDeepStrictEqual } from "node:util";
import { LineCounter, parseDocument } from "yaml";
import { isSecretPath, plainValue } from "./plain.ts";
import type { Place } from "./plain.ts";
import type { Path, Problem } from "./problem.ts";
import { substitute, verbatim } from "./substitution.ts";
import type { Surroundings } from "./substitution.ts";
import { syntaxProblems } from "./syntax.ts";

/** What a problem points at: a key, its value, or (for what is missing) the key of the mapping that lacks it. */
type Pointer = "key" | "value" | "parent";

/** A YAML file as plain values, with the place of each. */
export interface ConfigurationDocument {
  /** The values, secrets filled in. Not to be trusted when there are problems. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** Every value that was filled in and every text under a key named password. */
  readonly secrets: readonly string[];
  /** False: the text is no YAML at all, `value` means nothing. */
  readonly readable: boolean;
  problem(path: Path, pointer: Pointer, message: string): Problem;
  /** A problem `offset` characters into a text value, when that place can be told; else at its start. */
  problemWithin(path: Path, offset: number | undefined, message: string): Problem;
  /** The value at a path; undefined where there is none. */
  at(path: Path): unknown;
  /** The substitutions a value came from. */
  origins(path: Path): readonly string[];
  /** True: the value is one substitution and nothing else. */
  substituted(path: Path): boolean;
  /** True: a substitution in the value failed, or it is none, and has its problem already. */
  broken(path: Path): boolean;
  /** True: the value must not be shown. */
  secret(path: Path): boolean;
}

/**
 * Reads a YAML text. Everything that is wrong with it as YAML, or with its substitutions, is a problem, never an error.
 * Without `surroundings` nothing is substituted: `${` means itself.
 */
export function readDocument(text: string, surroundings: Surroundings | undefined): ConfigurationDocument {
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
  const value = readable
    ? plainValue(document, {
        place: (path, where) => places.set(JSON.stringify(path), where),
        fill: (source) => (surroundings === undefined ? verbatim(source) : substitute(source, surroundings)),
        secret: (found) => secrets.add(found),
        problem: (path, offset, message) => problems.push({ ...position(offset), path, message }),
        line: (offset) => position(offset).line,
        text,
      })
    : undefined;
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
    secret: (path) => (place(path)?.substituted?.secrets.length ?? 0) > 0 || isSecretPath(path),
    broken: (path) =>
      (place(path)?.substituted?.problems.length ?? 0) > 0 ||
      (at(path) === undefined && problems.some((found) => isDeepStrictEqual(found.path, path))),
  };
}
