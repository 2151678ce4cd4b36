#!/usr/bin/env node
import { connectors } from "#connectors/index.ts";
import { loadConnector } from "#connectors/load.ts";
import { runProgram } from "./cli/program.ts";
import { startService } from "./service/service.ts";

/** The composition root: the one place that knows the connectors, the service and the commands. */
process.exitCode = await runProgram(process.argv, {
  connectors,
  loadConnector,
  startService: (configuration, { log, private: alone }) => {
    if (configuration.service === undefined) throw new Error("the configuration has no service");
    const { tls, ...service } = configuration.service;
    const { data, memory } = configuration;
    if (alone) return startService({ ...service, listen: { host: "127.0.0.1", port: 0 }, data, memory, log });
    return startService({ ...service, ...(tls === undefined ? {} : { tls }), data, memory, log });
  },
});
