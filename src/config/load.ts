import { dirname, resolve } from "node:path";
import { codeOf, lookedIn, readSmallFile } from "#files/disk.ts";
import type { BuiltInConnector, Connector } from "#connector.ts";
import { InputError } from "#errors.ts";
import type { TableReader } from "#principals/lookup.ts";
import { redactor } from "#http/redact.ts";
import { pluralize } from "#text.ts";
import { build } from "./build.ts";
import { checkReferences, checkSyncRules } from "./checks.ts";
import type { Configuration } from "./configuration.ts";
import { readDocument } from "./document.ts";
import { renderProblems } from "./problems.ts";
import * as schema from "./schema.ts";
import { settingsOf } from "./differences.ts";
import { checkSources } from "./sources.ts";
import { notText, reason } from "./substitution.ts";
import { validate } from "./validate.ts";

export interface LoadOptions {
  /** The built-in connectors. */
  readonly connectors: readonly BuiltInConnector[];
  /** Loads a user's own connector; `name` is its path as written, `folder` that of the file. Absent: not supported. */
  readonly load?: (name: string, folder: string) => Promise<Connector>;
  /** Reads the tables that rules look values up in. Absent: they are not checked. */
  readonly readTable?: TableReader;
  /** The variables for `${env:NAME}`. Default: the process's. */
  readonly environment?: NodeJS.ProcessEnv;
}

/** The longest file, in bytes, and how many of its problems are told. */
const longest = 1024 ** 2;
const shown = 100;

/**
 * Reads, substitutes and validates a configuration file. Nothing is started, and no source or target is contacted.
 * @throws {InputError} with every problem of the file, each as `FILE:LINE:COLUMN: KEY: what is wrong; what to do`, in the
 *   order of the file. No problem shows a secret
 */
export async function loadConfiguration(file: string, options: LoadOptions): Promise<Configuration> {
  const absolute = resolve(file);
  const folder = dirname(absolute);
  const text = read(file);
  const document = readDocument(text, { folder, environment: options.environment ?? process.env });
  const problems = [...document.problems];
  const fail = (): never => {
    const redact = redactor(document.secrets);
    const lines = renderProblems(
      file,
      problems.map((problem) => ({ ...problem, message: redact(problem.message) })),
    );
    const more = lines.length - shown;
    throw new InputError(`${file} has ${lines.length === 1 ? "a problem" : pluralize(lines.length, "problem")}`, {
      problems: more > 0 ? [...lines.slice(0, shown), `… and ${pluralize(more, "further problem")}`] : lines,
    });
  };
  if (!document.readable) return fail();
  if (document.value === null)
    throw new InputError(`${file} is empty; the shortest configuration is the line \`service:\``);
  const validated = await validate(schema.file, document.value, [], document);
  const checked = await checkSources(document, folder, options);
  problems.push(
    ...validated.problems,
    ...checked.problems,
    ...(await checkReferences(document, folder)),
    ...(await checkSyncRules(document, folder, options.readTable)),
  );
  if (problems.length > 0 || validated.value === undefined) return fail();
  return build(validated.value, {
    file: absolute,
    folder,
    sources: checked.sources,
    readTable: options.readTable,
    secrets: document.secrets,
    settings: settingsOf(document),
  });
}

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
