import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import type { Connector } from "#connector.ts";
import { messageOf } from "#errors.ts";
import type { SourceConfiguration } from "./configuration.ts";
import type { ConfigurationDocument } from "./document.ts";
import { alternatives } from "./expectations.ts";
import type { Path, Problem } from "./problem.ts";
import { keysOf } from "./references.ts";
import { suggestion } from "./suggest.ts";
import { validate } from "./validate.ts";

/** Where connectors come from. */
export interface ConnectorSupply {
  /** The built-in ones. */
  readonly connectors: readonly Connector[];
  /** Loads one of the user's own: `path` as it stands in the file, `folder` the file's. */
  readonly load: (path: string, folder: string) => Promise<Connector>;
}

export interface CheckedSources {
  readonly sources: Readonly<Record<string, SourceConfiguration>>;
  readonly problems: readonly Problem[];
}

/** Finds the connector of every source and validates the options beside `connector:` with the connector's schema. */
export async function checkSources(
  document: ConfigurationDocument,
  folder: string,
  supply: ConnectorSupply,
): Promise<CheckedSources> {
  const sources: Record<string, SourceConfiguration> = {};
  const problems: Problem[] = [];
  for (const name of keysOf(document, ["sources"])) {
    const path = ["sources", name];
    const value = document.at(path);
    // That a source is no mapping, or names no connector, is the file schema's to say.
    if (typeof value !== "object" || value === null || !("connector" in value)) continue;
    const { connector: word, ...options } = value;
    if (typeof word !== "string" || word === "" || document.broken([...path, "connector"])) continue;
    const connector = await find(word, document, [...path, "connector"], folder, supply);
    if ("message" in connector) {
      problems.push(connector);
      continue;
    }
    const validated = await validate(strict(connector.options), options, path, document);
    problems.push(...validated.problems);
    sources[name] = { connector, options: validated.value };
  }
  return { sources, problems };
}

async function find(
  word: string,
  document: ConfigurationDocument,
  path: Path,
  folder: string,
  { connectors, load }: ConnectorSupply,
): Promise<Connector | Problem> {
  const builtIn = connectors.find(({ name }) => name === word);
  if (builtIn !== undefined) return builtIn;
  const origins = document.origins(path);
  const shown = origins.length > 0 ? `that comes from ${alternatives(origins)}` : word;
  if (!/^\.{0,2}\/|\.[cm]?[jt]s$/.test(word)) {
    const names = connectors.map(({ name }) => name);
    const hint = origins.length > 0 ? `expected one of: ${names.join(", ")}` : suggestion(word, names);
    return document.problem(
      path,
      "value",
      `no connector is called ${shown}; ${hint} (a module of your own is ./file.ts)`,
    );
  }
  try {
    const module: unknown = await load(word, folder);
    if (isConnector(module)) return module;
    return document.problem(
      path,
      "value",
      `the module ${shown} is no connector: its default export needs name, options (a zod schema) and open`,
    );
  } catch (error) {
    const why = origins.length > 0 ? "" : `: ${messageOf(error)}`;
    return document.problem(path, "value", `the module ${shown} cannot be loaded${why}`);
  }
}

/** Loads the default export of a module. A path that is not absolute is relative to the folder. */
export async function loadModule(path: string, folder: string): Promise<Connector> {
  const module = (await import(pathToFileURL(resolve(folder, path)).href)) as { default?: unknown };
  return module.default as Connector;
}

function isConnector(value: unknown): value is Connector {
  if (typeof value !== "object" || value === null) return false;
  const { name, options, open } = value as Record<string, unknown>;
  const schema = options as { safeParseAsync?: unknown } | undefined;
  return typeof name === "string" && typeof open === "function" && typeof schema?.safeParseAsync === "function";
}

/** Unknown options are errors, also where the connector's author did not ask for it. */
function strict(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodObject && schema.def.catchall === undefined ? schema.strict() : schema;
}
