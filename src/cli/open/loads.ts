import { openLoads } from "#client/loads.ts";
import type { Loads, LoadsOptions } from "#client/loads.ts";
import type { Configuration } from "#config/configuration.ts";
import { InputError } from "#errors.ts";
import { clientOptionsOf, embeddedOptions } from "./client-options.ts";
import type { Embedded } from "#cli/data/embedded.ts";

/** The loads of a target, and what it is called. */
export interface ConfiguredLoads extends Loads {
  readonly target: string;
}

/**
 * Opens the loads of a target of the configuration; without a name those of the only one, or of the configuration's own
 * service. Close them after use.
 * @param settings.nodes hosts that a load may be sent to, beside those the configuration lists
 * @throws {InputError}
 */
export async function openConfiguredLoads(
  configuration: Configuration,
  name: string | undefined,
  embedded: Embedded,
  settings: Pick<LoadsOptions, "fileChunk"> & {
    readonly log: (message: string) => void;
    readonly nodes?: readonly string[];
  },
): Promise<ConfiguredLoads> {
  const target = name ?? usualTarget(configuration);
  const isEmbedded = target === undefined || configuration.targets[target] === "embedded";
  const title = target ?? "embedded";
  const configured = configuration.targets[title];
  const listed = configured === undefined || configured === "embedded" ? [] : configured.nodes;
  const options = isEmbedded
    ? await embeddedOptions(title, embedded)
    : await clientOptionsOf(configuration, title, embedded);
  const loads = openLoads({
    ...options,
    log: settings.log,
    ...(settings.fileChunk === undefined ? {} : { fileChunk: settings.fileChunk }),
    // The configuration's own service is one node, whatever it tells the world its address is.
    nodes: isEmbedded ? "stay" : [...listed, ...(settings.nodes ?? [])],
  });
  return { ...loads, target: title };
}

/** The target that is meant when none is named; undefined: the service of the configuration, which no target names. */
function usualTarget({ file, service, targets }: Configuration): string | undefined {
  const names = Object.keys(targets);
  const embedded = names.filter((name) => targets[name] === "embedded");
  const [only, ...more] = embedded.length > 0 ? embedded : names;
  if (only !== undefined && (more.length === 0 || embedded.length > 0)) return only;
  if (names.length > 0) throw new InputError(`which target? Name one with --target: ${names.join(", ")}`);
  if (service === undefined) throw new InputError(`${file} has no target, and no \`service:\` either`);
  return undefined;
}
