import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startEntra } from "../support/entra/directory.ts";
import { app, largeTenant } from "../support/entra/tenant.ts";
import { largeGoogle } from "../support/google/large.ts";
import { startGoogle, subject } from "../support/google/server.ts";
import { OktaServer } from "../support/okta-directory.ts";
import { largeOkta } from "../support/okta-large.ts";
import { machine, median, mebibytes, runApart, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import type { SourceReadRequest, SourceReadTiming } from "./source-read.ts";

/** A directory that is served, for a connector to read. */
interface Served {
  readonly options: unknown;
  readonly folder: string;
  /** The requests for data since the last call, and the headers with which they succeed, too. */
  replay(): { readonly urls: readonly string[]; readonly headers: Readonly<Record<string, string>> };
  close(): Promise<void>;
}

interface Size {
  readonly users: number;
  readonly groups: number;
}

/** By the name of the connector. */
const directories: Readonly<Record<string, (size: Size) => Promise<Served>>> = { entra, google, okta };

/**
 * `npm run bench -- sources [--users 100000] [--groups 2000] [--rounds 3] [--only google]`: directories that are asked page
 * by page, from simulators, beside a loop that makes the same requests, parses the answers and does nothing with them.
 * Every measurement is a process of its own; the simulator is this one.
 */
export async function sources(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      users: { type: "string", default: "100000" },
      groups: { type: "string", default: "2000" },
      rounds: { type: "string", default: "3" },
      only: { type: "string", default: Object.keys(directories).join(",") },
    },
  });
  const size = { users: wholeNumber(values.users), groups: wholeNumber(values.groups) };
  const figures: Figure[] = [];
  const rows: string[][] = [];
  for (const name of values.only.split(",")) {
    const serve = directories[name];
    if (serve === undefined)
      throw new Error(`no such directory: ${name}; there are ${Object.keys(directories).join(", ")}`);
    const { read, floor, requests } = await measure(name, await serve(size), size, wholeNumber(values.rounds));
    const [time, limit] = [read, floor].map((timings) => median(timings.map(({ milliseconds }) => milliseconds)));
    const memory = Math.max(...read.map((timing) => timing.memory));
    const cpu = median(read.map((timing) => timing.cpu));
    const eventLoop = median(read.map(({ delay }) => delay));
    rows.push([
      name,
      String(requests),
      seconds(time),
      seconds(limit),
      ((time ?? 0) / (limit ?? 1)).toFixed(2),
      seconds(cpu),
      mebibytes(memory),
    ]);
    const by = { by: "the same requests alone", value: limit ?? 0 };
    figures.push({ what: `read from ${name}`, value: time ?? 0, unit: "ms", limit: by, cpu, memory, eventLoop });
  }
  console.log(`${machine()}: ${size.users} users, ${size.groups} groups, ${values.rounds} rounds\n`);
  console.log(table(["directory", "requests", "read", "requests alone", "ratio", "processor", "memory"], rows));
  return figures;
}

async function measure(
  name: string,
  served: Served,
  { users, groups }: Size,
  rounds: number,
): Promise<{ read: SourceReadTiming[]; floor: SourceReadTiming[]; requests: number }> {
  const module = new URL(`../../connectors/${name}/index.ts`, import.meta.url).href;
  const { options, folder } = served;
  const [read, floor]: SourceReadTiming[][] = [[], []];
  const apart = (request: SourceReadRequest): Promise<SourceReadTiming> => runApart("source-read.ts", request);
  try {
    for (let round = 1; round <= rounds; round++) {
      const timing = await apart({ work: "read", module, options, folder });
      if (timing.counts["users"] !== users || timing.counts["groups"] !== groups)
        throw new Error(`${name}: ${JSON.stringify(timing.counts)} were read`);
      read?.push(timing);
      const { urls, headers } = served.replay();
      const file = join(folder, "urls.json");
      await writeFile(file, JSON.stringify(urls));
      floor?.push(await apart({ work: "floor", file, headers }));
      const times = [timing, floor?.at(-1)].map((each) => seconds(each?.milliseconds));
      console.error(`${name}, round ${round}: read, requests alone: ${times.join(", ")}`);
    }
  } finally {
    await served.close();
  }
  return { read: read ?? [], floor: floor ?? [], requests: floor?.[0]?.counts["requests"] ?? 0 };
}

async function entra({ users, groups }: Size): Promise<Served> {
  const server = await startEntra(largeTenant(users, groups));
  const { login, graph, requests } = server;
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  const { tenant, clientId, clientSecret } = app;
  let seen = 0;
  return {
    options: { tenant, clientId, clientSecret, cloud: { login, graph }, concurrency: 4 },
    folder,
    replay: () => {
      const paths = requests.slice(seen);
      seen = requests.length + paths.length;
      const headers = { authorization: server.authorization(), consistencylevel: "eventual" };
      return { urls: paths.map((path) => new URL(path, graph).href), headers };
    },
    close: async () => {
      await server.close();
      await rm(folder, { recursive: true });
    },
  };
}

async function google({ users, groups }: Size): Promise<Served> {
  const server = await startGoogle(largeGoogle(users, groups));
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  await writeFile(join(folder, "key.json"), JSON.stringify(server.key));
  let seen = 0;
  return {
    options: { key: { file: "key.json" }, subject, endpoints: server.endpoints },
    folder,
    replay: () => {
      const paths = server.requests.slice(seen).filter((path) => path !== "/token");
      seen = server.requests.length + paths.length;
      return { urls: paths.map((path) => `${server.url}${path}`), headers: { authorization: server.authorization() } };
    },
    close: async () => {
      await server.close();
      await rm(folder, { recursive: true });
    },
  };
}

async function okta({ users, groups }: Size): Promise<Served> {
  const token = "00token";
  const server = await OktaServer.start(largeOkta(users, groups), { token });
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  let seen = 0;
  return {
    options: { url: server.url, token },
    folder,
    replay: () => {
      const paths = server.requests.slice(seen).map((request) => request.replace("GET ", ""));
      seen = server.requests.length + paths.length;
      return { urls: paths.map((path) => `${server.url}${path}`), headers: { authorization: `SSWS ${token}` } };
    },
    close: async () => {
      await server.close();
      await rm(folder, { recursive: true });
    },
  };
}
