import { resolve } from "node:path";
import { readSmallFile, UnfitFileError } from "#files/disk.ts";

/** One text value with its substitutions filled in. */
export interface Substituted {
  readonly text: string;
  /** The substitutions that brought in a value, as written: `${env:NAME}`. */
  readonly origins: readonly string[];
  /** The values they brought in. */
  readonly secrets: readonly string[];
  /** The value is one substitution and nothing else, so it may become a number or a boolean. */
  readonly whole: boolean;
  readonly problems: readonly string[];
}

/** Where substituted values come from. */
export interface SubstitutionSources {
  readonly environment: NodeJS.ProcessEnv;
  /** The folder of the configuration file. */
  readonly folder: string;
  /** How many more characters may be brought in; no limit by default. */
  readonly room?: number | undefined;
}

/** The most that one file may bring in, in bytes. */
const longestSecret = 64 * 1024;

const pattern = /\$\$\{|\$\{(?<inside>[^}]*)(?<end>\}?)/g;
const variable = /^env:(?<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?<fallback>.*))?$/s;
const file = /^file:(?<path>.+)$/s;
const forms = "expected ${env:NAME}, ${env:NAME:-default} or ${file:/path}; for the text ${ itself write $${";

/**
 * Fills in `${env:NAME}`, `${env:NAME:-default}` (the default also when the variable is empty) and `${file:/path}`
 * (without one final newline); `$${` is the text `${`. Filled-in values are not substituted again.
 */
export function substitute(text: string, { environment, folder, room = Infinity }: SubstitutionSources): Substituted {
  const origins: string[] = [];
  const secrets: string[] = [];
  const problems: string[] = [];
  let left = room;
  const take = (origin: string, value: string): string => {
    origins.push(origin);
    left -= value.length;
    if (left < 0) {
      if (left + value.length >= 0) problems.push("what ${…} brings in is longer than 1 MiB altogether");
      return "";
    }
    if (value !== "") secrets.push(value);
    return value;
  };
  const fill = (inside: string): string => {
    const fromVariable = variable.exec(inside)?.groups;
    if (fromVariable !== undefined) {
      const { name = "", fallback } = fromVariable;
      const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
      if (value !== undefined && (value !== "" || fallback === undefined)) return take(`\${env:${name}}`, value);
      if (fallback !== undefined) return fallback;
      problems.push(`the environment variable ${name} is not set; set it, or give a default: \${env:${name}:-default}`);
      return "";
    }
    const path = file.exec(inside)?.groups?.["path"];
    if (path !== undefined) {
      try {
        return take(`\${file:${path}}`, readText(resolve(folder, path)));
      } catch (error) {
        problems.push(`\${file:${path}} cannot be read: ${reason(error)} (${resolve(folder, path)})`);
        return "";
      }
    }
    problems.push(`unknown substitution; ${forms}`);
    return "";
  };
  let matches = 0;
  const result = text.replace(pattern, (match: string, inside: string | undefined, end: string | undefined) => {
    matches += 1;
    if (inside === undefined) return "${";
    if (end === "}") return fill(inside);
    problems.push(`\${ without its closing }; ${forms}`);
    return match;
  });
  const whole = matches === 1 && /^\$\{[^}]*\}$/s.test(text);
  return { text: result, origins, secrets, whole, problems };
}

/** A text in which nothing may be filled in: only `$${` becomes the text `${`. @param problem what any other `${` is told */
export function unfilled(text: string, problem: string): Substituted {
  let isRefused = false;
  const result = text.replace(pattern, (match: string, inside: string | undefined) => {
    if (inside === undefined) return "${";
    isRefused = true;
    return match;
  });
  return { text: result, origins: [], secrets: [], whole: false, problems: isRefused ? [problem] : [] };
}

/** The text as it is. */
export function verbatim(text: string): Substituted {
  return { text, origins: [], secrets: [], whole: false, problems: [] };
}

function readText(path: string): string {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(readSmallFile(path, longestSecret));
  return text.replace(/\r?\n$/, "");
}

export const notText = "it is not UTF-8 text";

/** Why a file could not be read, without the path. */
export function reason(error: unknown): string {
  if (error instanceof UnfitFileError) return error.message;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  switch (code) {
    case "ENOENT":
      return "it does not exist";
    case "EISDIR":
      return "it is a folder";
    case "EACCES":
    case "EPERM":
      return "permission denied";
    case "ENOTDIR":
      return "a part of its path is not a folder";
    case "ERR_ENCODING_INVALID_ENCODED_DATA":
      return notText;
    default:
      return typeof code === "string" ? code : "it is not readable";
  }
}
