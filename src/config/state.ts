import { resolve } from "node:path";
import { z } from "zod";
import { postgres } from "#postgres/options.ts";
import { data, engine, memory } from "#service/options.ts";
import * as values from "#values.ts";
import type { Configuration } from "./configuration.ts";
import { keysOf, readConfiguration } from "./document.ts";
import type { ConfigurationDocument, TextOptions } from "./document.ts";
import { refuse } from "./problems.ts";
import type { Problem } from "./problems.ts";
import { validate } from "./validate.ts";

/**
 * What a command needs of a configuration that only reads what runs have left: where that is, what the syncs are called,
 * and what must not be shown.
 */
export type StateConfiguration = Pick<Configuration, "file" | "data" | "memory" | "shared" | "secrets"> & {
  readonly syncs: Readonly<Record<string, unknown>>;
};

/** `daemon`. */
export const daemon = values
  .section({
    data,
    memory,
    state: z
      .union([z.literal("folder"), z.literal("postgres"), postgres], {
        error: "expected folder, postgres, or { postgres: URL }",
      })
      .prefault("folder")
      .describe(
        "Where journal, ledgers, stored plans, audit log and unsent notifications are. folder: in the data folder. postgres: in the database of service.engine, or in the given one; any number of daemons then share them.",
      ),
    lease: values.patience
      .prefault("15s")
      .describe("How long a daemon that shares its state may be silent before another takes over its work."),
  })
  .describe(
    "The daemon. Its data folder and memory limit are for a file without service; with a service, it uses service.data and service.memory.",
  );

const stateOfService = z.looseObject({ data, memory, engine });

/** The keys that say where the state is; there are others. */
const stateFile = z.looseObject({
  service: stateOfService.nullish().transform((value) => (value === null ? stateOfService.parse({}) : value)),
  daemon,
});

/**
 * Reads of a configuration file where the state is. What else stands in it may be wrong: whoever has made a mistake in a
 * rule still sees what has happened so far. Loads neither rules nor connectors.
 * @throws {InputError} as `loadConfiguration` does, with the problems of YAML, of substitutions and of these keys
 */
export async function loadState(file: string, options: TextOptions = {}): Promise<StateConfiguration> {
  const { absolute, folder, document } = readConfiguration(file, options);
  const validated = await validate(stateFile, document.value, [], document);
  const problems = [...document.problems, ...validated.problems, ...checkState(document)];
  if (problems.length > 0 || validated.value === undefined) return refuse(file, problems, document.secrets);
  return {
    file: absolute,
    ...buildState(validated.value, folder),
    secrets: document.secrets,
    syncs: Object.fromEntries(keysOf(document, ["syncs"]).map((name) => [name, undefined])),
  };
}

/** What is wrong with these keys together. Reads the raw values, so that it also works when the schema found problems. */
export function checkState(document: ConfigurationDocument): Problem[] {
  return [...daemonBeside(document), ...stateWithout(document)];
}

/** The service and the daemon share a data folder: a second one would be ignored silently. */
function daemonBeside(document: ConfigurationDocument): Problem[] {
  if (!keysOf(document, []).includes("service")) return [];
  return ["data", "memory"].flatMap((key) =>
    document.at(["daemon", key]) === undefined
      ? []
      : [
          document.problem(
            ["daemon", key],
            "key",
            `only applies to a file without \`service:\`; here, set service.${key} instead`,
          ),
        ],
  );
}

/** `state: postgres` is the database of the service. */
function stateWithout(document: ConfigurationDocument): Problem[] {
  const path = ["daemon", "state"];
  if (document.at(path) !== "postgres" || document.at(["service", "engine", "postgres"]) !== undefined) return [];
  return [
    document.problem(
      path,
      "value",
      "postgres means the database of service.engine, which is not PostgreSQL here: write { postgres: URL }",
    ),
  ];
}

export function withAuthorities<Server extends { readonly sslrootcert?: string }>(
  server: Server,
  folder: string,
): Server {
  return server.sslrootcert === undefined ? server : { ...server, sslrootcert: resolve(folder, server.sslrootcert) };
}

/** Makes of validated keys where the state is. `checkState` has made sure that there is a database where one is meant. */
export function buildState(
  { service, daemon }: Pick<z.infer<typeof stateFile>, "service" | "daemon">,
  folder: string,
): Pick<Configuration, "data" | "memory" | "shared"> {
  const { data, memory } = service ?? daemon;
  const { state, lease } = daemon;
  const server = state === "postgres" ? service?.engine : state;
  return {
    data: resolve(folder, data),
    memory,
    shared:
      server === undefined || typeof server === "string"
        ? undefined
        : { postgres: withAuthorities(server, folder), lease },
  };
}
