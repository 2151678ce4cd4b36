import { dirname, resolve } from "node:path";
import { codeOf, lookedIn, readSmallFile } from "#files/disk.ts";
import type { BuiltInConnector, Connector } from "#connector.ts";
import { InputError } from "#errors.ts";
import type { TableReader } from "#principals/lookup.ts";
import { build } from "./build.ts";
import { checkReferences, checkSyncRules } from "./checks.ts";
import type { Configuration } from "./configuration.ts";
import { readDocument } from "./document.ts";
import { refuse } from "./problems.ts";
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
  /** The text of the file as it was read before. Absent: it is read. */
  readonly text?: string | undefined;
}

/** The longest file, in bytes. */
const longest = 1024 ** 2;

/**
 * Reads, substitutes and validates a configuration file. Nothing is started, and no source or target is contacted.
 * @throws {InputError} with every problem of the file, each as `FILE:LINE:COLUMN: KEY: what is wrong; what to do`, in the
 *   order of the file. No problem shows a secret
 */
export async function loadConfiguration(file: string, options: LoadOptions): Promise<Configuration> {
  const absolute = resolve(file);
  const folder = dirname(absolute);
  const { text = read(file) } = options;
  const document = readDocument(text, { folder, environment: options.environment ?? process.env });
  const problems = [...document.problems];
  const fail = (): never => refuse(file, problems, document.secrets);
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
    text,
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
