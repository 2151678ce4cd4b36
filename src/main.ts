import { readFileSync } from "node:fs";
import {
  connectors,
  loadConnector,
  loadInboxRoutes,
  loadTargetConnector,
  readTable,
  targetConnectors,
} from "#connectors/index.ts";
import { trialArgument } from "#daemon/composition.ts";
import type { Composition, RunningService, ServiceStart } from "#daemon/composition.ts";
import { runProgram } from "./cli/program.ts";
import type { Configuration } from "./config/configuration.ts";
import { keepFilesPrivate } from "./files/private.ts";
import { root } from "./root.ts";

const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };

/** The composition root: the one place that knows the connectors, the service and the commands. */
const composition: Composition = {
  version,
  connectors,
  loadConnector,
  targetConnectors,
  loadTargetConnector,
  readTable,
  loadInboxRoutes,
  copyEngine: async ({ data, memory }, { url, sslrootcert, ...rest }) => {
    const { copyToPostgres } = await import("./service/copy.ts");
    const { readTarget } = await import("./postgres/options.ts");
    await copyToPostgres({ data, memory, postgres: readTarget({ postgres: url, sslrootcert }), ...rest });
  },
  startService,
};

async function startService(configuration: Configuration, options: ServiceStart): Promise<RunningService> {
  if (configuration.service === undefined) throw new Error("the configuration has no service");
  // Only when it is needed: a command beside a running service has no use for a server.
  const { startService: start } = await import("./service/service.ts");
  const { tls, pinboards, ...service } = configuration.service;
  const { data, memory } = configuration;
  if (options.private) return start({ ...service, listen: { host: "127.0.0.1", port: 0 }, data, memory, ...options });
  return start({
    ...service,
    ...(tls === undefined ? {} : { tls }),
    // The service knows nothing of files and YAML: it is handed what reads them, now and at every reload.
    ...(pinboards === undefined
      ? {}
      : { pinboards: async () => (await import("./config/pinboards.ts")).loadPinboards(pinboards) }),
    data,
    memory,
    ...options,
  });
}

/** Runs the command line `argv`, which begins with the runtime and the program. Returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  keepFilesPrivate();
  if (argv[2] === trialArgument && process.connected) {
    const { serveTrial } = await import("#daemon/trial.ts");
    return serveTrial(composition);
  }
  return runProgram(argv, composition);
}
