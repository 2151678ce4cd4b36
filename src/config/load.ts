import type { BuiltInConnector, Connector } from "#connector.ts";
import type { TableReader } from "#principals/lookup.ts";
import { build } from "./build.ts";
import { checkReferences, checkSyncRules, readsTexts } from "./checks.ts";
import type { Configuration } from "./configuration.ts";
import { readConfiguration } from "./document.ts";
import type { TextOptions } from "./document.ts";
import { refuse, renderProblems } from "./problems.ts";
import * as schema from "./schema.ts";
import { settingsOf } from "./differences.ts";
import { checkSources } from "./sources.ts";
import { validate } from "./validate.ts";

export interface LoadOptions extends TextOptions {
  /** The built-in connectors. */
  readonly connectors: readonly BuiltInConnector[];
  /** Loads a user's own connector; `name` is its path as written, `folder` that of the file. Absent: not supported. */
  readonly load?: (name: string, folder: string) => Promise<Connector>;
  /** Reads the tables that rules look values up in. Absent: they are not checked. */
  readonly readTable?: TableReader;
}

/**
 * Reads, substitutes and validates a configuration file. Nothing is started, and no source or target is contacted.
 * @throws {InputError} with every problem of the file, each as `FILE:LINE:COLUMN: KEY: what is wrong; what to do`, in the
 *   order of the file. No problem shows a secret
 */
export async function loadConfiguration(file: string, options: LoadOptions): Promise<Configuration> {
  const { absolute, folder, text, document } = readConfiguration(file, options);
  const validated = await validate(schema.file, document.value, [], document);
  const checked = await checkSources(document, folder, options);
  const problems = [
    ...document.problems,
    ...validated.problems,
    ...checked.problems,
    ...(await checkReferences(document, folder)),
    ...(await checkSyncRules(document, folder, readsTexts(document, checked.sources), options.readTable)),
  ];
  if (problems.length > 0 || validated.value === undefined) return refuse(file, problems, document.secrets);
  return build(validated.value, {
    file: absolute,
    text,
    folder,
    sources: checked.sources,
    readTable: options.readTable,
    secrets: document.secrets,
    warnings: renderProblems(file, document.shortSecrets),
    settings: settingsOf(document),
  });
}
