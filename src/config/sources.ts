import { z } from "zod";
import type { BuiltInConnector, Connector } from "#connector.ts";
import { messageOf } from "#errors.ts";
import { didYouMean } from "#text.ts";
import type { SourceConfiguration } from "./configuration.ts";
import { keysOf } from "./document.ts";
import type { ConfigurationDocument } from "./document.ts";
import type { Path, Problem } from "./problems.ts";
import { sourceSettings } from "./schema.ts";
import { alternatives, validate } from "./validate.ts";

/** The connectors that a configuration may name. */
export interface ConnectorSupply {
  /** The built-in ones. */
  readonly connectors: readonly BuiltInConnector[];
  /** Loads a user's own connector: `path` as written, `folder` that of the file. Absent: not supported. */
  readonly loadConnector?: ((path: string, folder: string) => Promise<Connector>) | undefined;
}

export interface CheckedSources {
  readonly sources: Readonly<Record<string, SourceConfiguration>>;
  readonly problems: readonly Problem[];
}

/** Finds the connector of every source and validates the options beside `connector:` with the connector's schema. */
export async function checkSources(
  document: ConfigurationDocument,
  folder: string,
  { connectors, loadConnector: load }: ConnectorSupply,
): Promise<CheckedSources> {
  const sources: Record<string, SourceConfiguration> = {};
  const problems: Problem[] = [];
  for (const name of keysOf(document, ["sources"])) {
    const path = ["sources", name];
    const value = document.at(path);
    // The file's schema reports a source that is no mapping or names no connector.
    if (typeof value !== "object" || value === null || !("connector" in value)) continue;
    const { connector: word, ...rest } = value;
    if (typeof word !== "string" || word === "" || document.broken([...path, "connector"])) continue;
    const connector = await findConnector(word, document, [...path, "connector"], folder, { connectors, load });
    if ("message" in connector) {
      problems.push(connector);
      continue;
    }
    const [settings, options] = splitSettings(rest);
    const validated = await validate(strict(connector.options), options, path, document);
    problems.push(...validated.problems);
    // The file's schema reports problems of the settings.
    const { data = {} } = sourceSettings.safeParse(settings);
    sources[name] = { connector, options: validated.value, lines: linesOf(document, path), ...data };
  }
  return { sources, problems };
}

/** The line of every text of a source, the first of equal ones. */
function linesOf(document: ConfigurationDocument, source: Path): ReadonlyMap<string, number> {
  const lines = new Map<string, number>();
  const visit = (value: unknown, path: Path): void => {
    if (typeof value === "string" && !lines.has(value)) lines.set(value, document.problem(path, "value", "").line);
    if (typeof value !== "object" || value === null) return;
    for (const [key, each] of Object.entries(value)) visit(each, [...path, Array.isArray(value) ? Number(key) : key]);
  };
  visit(document.at(source), source);
  return lines;
}

/** Separates the settings of every source from the connector's own options. */
function splitSettings(source: object): [settings: object, options: object] {
  const settings: Record<string, unknown> = {};
  const options: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(source)) {
    const part = Object.hasOwn(sourceSettings.shape, key) ? settings : options;
    part[key] = value;
  }
  return [settings, options];
}

/** The connector of a name, or of a path. @returns a problem where there is none */
export async function findConnector<Found extends object>(
  word: string,
  document: ConfigurationDocument,
  path: Path,
  folder: string,
  {
    connectors,
    load,
  }: {
    readonly connectors: readonly { readonly name: string; readonly load: () => Promise<Found> }[];
    readonly load?: ((path: string, folder: string) => Promise<Found>) | undefined;
  },
): Promise<Found | Problem> {
  const builtIn = connectors.find(({ name }) => name === word);
  if (builtIn !== undefined) return builtIn.load();
  const origins = document.origins(path);
  const from = origins.length > 0 ? `from ${alternatives(origins)}` : undefined;
  if (load === undefined || !/^\.{0,2}\/|\.[cm]?[jt]s$/.test(word)) {
    const names = connectors.map(({ name }) => name);
    const name = from === undefined ? `is called ${word}` : `has the name ${from}`;
    const hint = from !== undefined ? `expected one of: ${names.join(", ")}` : didYouMean(word, names);
    return document.problem(
      path,
      "value",
      `no connector ${name}; ${hint} (for a module of your own, write its path: ./NAME.ts)`,
    );
  }
  try {
    return await load(word, folder);
  } catch (error) {
    // The message names the path.
    const message = from !== undefined ? `the module ${from} cannot be loaded` : messageOf(error);
    return document.problem(path, "value", message);
  }
}

/** Unknown options are errors, even if the connector's author did not ask for that. */
export function strict(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodObject && schema.def.catchall === undefined ? schema.strict() : schema;
}
