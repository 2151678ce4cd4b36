import { readFile } from "node:fs/promises";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Connector } from "#connector.ts";

/** A process of its own: a source that is read, or the same requests without a connector. */
export type SourceReadRequest =
  | { readonly work: "read"; readonly module: string; readonly options: unknown; readonly folder: string }
  | {
      readonly work: "floor";
      /** Holds the URLs, as JSON. */ readonly file: string;
      readonly headers: Readonly<Record<string, string>>;
    };

export interface SourceReadTiming {
  readonly milliseconds: number;
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
  /** The peak of the whole process, in bytes. */
  readonly memory: number;
  /** Of a hundred delays of the event loop the worst but one, in milliseconds. */
  readonly delay: number;
  /** Users, groups and memberships; of the floor, requests. */
  readonly counts: Readonly<Record<string, number>>;
}

/** As many as the connectors have under way. */
const width = 4;

const request = JSON.parse(process.argv[2] ?? "") as SourceReadRequest;
const eventLoop = monitorEventLoopDelay({ resolution: 1 });
eventLoop.enable();
const started = performance.now();
const before = process.cpuUsage();
const counts =
  request.work === "read" ? await read(request) : await fetchAll(await urlsIn(request.file), request.headers);
const milliseconds = performance.now() - started;
const { user, system } = process.cpuUsage(before);
const timing: SourceReadTiming = {
  milliseconds,
  cpu: (user + system) / 1000,
  memory: process.resourceUsage().maxRSS * 1024,
  delay: eventLoop.percentile(99) / 1e6,
  counts,
};
console.log(JSON.stringify(timing));

async function read({
  module,
  options,
  folder,
}: Extract<SourceReadRequest, { work: "read" }>): Promise<Record<string, number>> {
  const connector = ((await import(module)) as { default: Connector }).default;
  const source = connector.open(connector.options.parse(options), { name: "bench", folder });
  const seen = { users: 0, groups: 0, memberships: 0 };
  const context = { signal: new AbortController().signal, warn: console.error };
  for await (const batch of source.read(context)) {
    for (const record of batch) {
      if (record.kind === "membership") seen.memberships++;
      else {
        seen[`${record.kind}s`]++;
        seen.memberships += record.members.length + record.memberOf.length;
      }
    }
  }
  return seen;
}

async function urlsIn(file: string): Promise<readonly string[]> {
  return JSON.parse(await readFile(file, "utf8")) as string[];
}

/** Asks for all pages, parses and forgets them. */
async function fetchAll(
  urls: readonly string[],
  headers: Readonly<Record<string, string>>,
): Promise<Record<string, number>> {
  let next = 0;
  const loop = async (): Promise<void> => {
    for (let url = urls[next++]; url !== undefined; url = urls[next++]) {
      const response = await fetch(url, { headers });
      if (!response.ok) throw new Error(`${url} answered ${response.status}`);
      await response.json();
    }
  };
  await Promise.all(Array.from({ length: width }, loop));
  return { requests: urls.length };
}
