import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { loadConnector } from "#connectors/index.ts";

/**
 * A process that reads a source once and keeps nothing; run with a small heap. Its standard input is the JSON of a
 * `Reading`, its standard output that of how many records of each kind there were.
 */
export interface Reading {
  /** The URL of the connector's module. */
  readonly module: string;
  readonly options: unknown;
  readonly folder: string;
}

export type Counts = Record<"user" | "group" | "membership", number>;

const { module, options, folder } = JSON.parse(await text(process.stdin)) as Reading;
const connector = await loadConnector(fileURLToPath(module), folder);
const source = connector.open(connector.options.parse(options), { name: "source", folder });
const counts: Counts = { user: 0, group: 0, membership: 0 };
for await (const batch of source.read({ signal: new AbortController().signal, warn: () => {} })) {
  for (const record of batch) counts[record.kind]++;
}
process.stdout.write(JSON.stringify(counts));
