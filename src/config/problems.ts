import { isScalar, visit } from "yaml";
import type { Document, LineCounter, YAMLError } from "yaml";
import { InputError } from "#errors.ts";
import { redactor } from "#redact.ts";
import { pluralize } from "#text.ts";

/** A value's place in the file: keys and list indexes from the top. */
export type Path = readonly (string | number)[];

/** One problem and its place in the file. Lines and columns count from 1. Never contains a secret. */
export interface Problem {
  readonly line: number;
  readonly column: number;
  readonly path: Path;
  readonly message: string;
}

/** A path for a person: `syncs.staff.from[0]`; unusual keys are quoted: `targets["a b"]`. */
export function renderPath(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      if (!/^[\w-]+$/.test(step)) return `[${JSON.stringify(step)}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join("");
}

/** The problems as lines, in the order of the file, without duplicates. */
export function renderProblems(file: string, problems: readonly Problem[]): string[] {
  const lines = [...problems]
    .sort((a, b) => a.line - b.line || a.column - b.column)
    .map(({ line, column, path, message }) => {
      const place = path.length === 0 ? "" : `${renderPath(path)}: `;
      return `${file}:${line}:${column}: ${place}${message}`;
    });
  return [...new Set(lines)];
}

/** How many problems of a file are told. */
const told = 100;

/**
 * @throws {InputError} with every problem of a text, in its order, without secrets
 * @param file what the text is called
 * @param has how a sentence about it begins
 */
export function refuse(
  file: string,
  problems: readonly Problem[],
  secrets: readonly string[],
  has = `${file} has`,
): never {
  const redact = redactor(secrets);
  const lines = renderProblems(
    file,
    problems.map((problem) => ({ ...problem, message: redact(problem.message) })),
  );
  const more = lines.length - told;
  throw new InputError(`${has} ${lines.length === 1 ? "a problem" : pluralize(lines.length, "problem")}`, {
    problems: more > 0 ? [...lines.slice(0, told), `… and ${pluralize(more, "further problem")}`] : lines,
  });
}

const meanings: { readonly [code in YAMLError["code"]]?: string } = {
  TAB_AS_INDENT: "a tab; indent with spaces",
  BAD_INDENT: "the indentation does not fit the lines above; keys of one mapping start at the same column",
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " in one value; put the value in quotes',
  BLOCK_IN_FLOW: "keys with values cannot be here; put each on its own line",
  MULTILINE_IMPLICIT_KEY:
    "this line is neither a key with a colon and a space nor part of the value above; check the indentation",
  MULTIPLE_DOCS: "a second document begins here; one file holds one configuration",
  BAD_DQ_ESCAPE: "unknown escape in double quotes; write \\\\ for a backslash, or use single quotes",
  TAG_RESOLVE_FAILED: "a tag that has no meaning here; put the value in quotes",
  BAD_ALIAS: "a broken alias; a value that starts with * or & needs quotes",
  RESOURCE_EXHAUSTION: "nested too deeply; is a bracket or a quote missing?",
  ALIAS_PROPS: "a broken alias; a value that starts with * or & needs quotes",
};

/** A line whose value begins with a character that means something else to YAML: `key: *…`, `- !…`. */
const valueOfLine = /^(?<before>\s*(?:- +)*(?:[^\s:"'#]+:\s+)?)(?<first>\S)/;

/**
 * Why the text is not YAML, in plain words. The parser's own messages quote the file, and its passwords.
 * Reports one problem per line; later ones follow from the first.
 */
export function syntaxProblems(document: Document, text: string, counter: LineCounter): Problem[] {
  const lines = text.split(/\r?\n/);
  const byLine = new Map<number, Problem>();
  // An unresolved tag is a warning only, but it swallows the value: `include: !has(entry.x)` would be an empty text.
  for (const error of [...document.errors, ...document.warnings]) {
    // Once the parser is lost, it calls every following line "unexpected".
    if (byLine.size > 0 && /in YAML stream|flow-error-end/.test(error.message)) break;
    const { line, column, message } = explain(error, document, lines, counter);
    if (!byLine.has(line)) byLine.set(line, { line, column, path: [], message });
    if (error.code === "MULTIPLE_DOCS") break;
  }
  return [...byLine.values()];
}

function explain(
  error: YAMLError,
  document: Document,
  lines: readonly string[],
  counter: LineCounter,
): { line: number; column: number; message: string } {
  const opening = error.message.startsWith("Missing closing") ? unclosedQuote(document, error.pos[0]) : undefined;
  const { line, col: column } = counter.linePos(opening ?? error.pos[0]);
  const source = lines[line - 1] ?? "";
  const { before = "", first = "" } = valueOfLine.exec(source)?.groups ?? {};
  const start = before.length + 1;
  if (opening !== undefined) return { line, column, message: "a quote that is never closed" };
  if (source.slice(column - 2, column) === "${")
    return { line, column: column - 1, message: "between { } and [ ], ${…} needs quotes around it" };
  if (column >= start && error.code !== "TAB_AS_INDENT") {
    if ("*!&@`%|>".includes(first) && first !== "")
      return { line, column: start, message: `a value that starts with ${first} needs quotes around it` };
    if (error.code === "UNEXPECTED_TOKEN" && (first === '"' || first === "'") && error.message.endsWith("at node end"))
      return {
        line,
        column: start,
        message: `text after the closing quote; put the whole value in quotes, for instance '"a" + entry.b'`,
      };
  }
  return { line, column, message: `not YAML: ${meaning(error)}` };
}

/** The offset of the quoted scalar that swallowed the rest of the file. */
function unclosedQuote(document: Document, end: number): number | undefined {
  let found: number | undefined;
  visit(document, {
    Scalar: (_key, node) => {
      const start = node.range?.[0];
      if (isScalar(node) && node.type?.startsWith("QUOTE_") === true && start !== undefined && start < end)
        found = start;
    },
  });
  return found;
}

function meaning({ code, message }: YAMLError): string {
  const bracket = /must be sufficiently indented and end with a (?<end>[\]}])/.exec(message)?.groups?.["end"];
  if (bracket !== undefined)
    return `a ${bracket === "]" ? "[" : "{"} above is not closed: its ${bracket} is missing or at the beginning of a line`;
  // The part after the colon quotes the file.
  if (code === "UNEXPECTED_TOKEN") return message.replace(/:.*$/s, "").replace(/^U/, "u");
  if (code === "MISSING_CHAR") return message.charAt(0).toLowerCase() + message.slice(1);
  return meanings[code] ?? code.toLowerCase().replaceAll("_", " ");
}
