import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { clientOf } from "../support/inbox/served.ts";
import type { Send } from "../support/inbox/client.ts";
import { startPostgres } from "../support/postgres.ts";
import { spawnProgram } from "../support/process.ts";
import type { InboxServerRequest } from "./inbox-server.ts";
import { cpuTimes, machine, median, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

/**
 * How many requests a second an inbox answers: for each user what a provider sends, a search by userName, a POST and a PATCH. Eight
 * clients push at the same time. Beside it the same requests to other SCIM servers, scimmy-routers in memory and,
 * where it is installed, Polis. Then searches in an inbox with many users.
 *
 *     npm run bench -- inbox [--n USERS] [--clients 8] [--there 100000] [--rounds 3] [--polis FOLDER]
 *
 * FOLDER is where `npm install @boxyhq/saml-jackson` was run: it is too large to be a dependency of this repository.
 */
export async function inbox(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      n: { type: "string", default: "1000" },
      clients: { type: "string", default: "8" },
      there: { type: "string", default: "100000" },
      rounds: { type: "string", default: "3" },
      polis: { type: "string" },
    },
  });
  const [users, clients, there, rounds] = [values.n, values.clients, values.there, values.rounds].map(wholeNumber) as [
    number,
    number,
    number,
    number,
  ];
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-inbox-"));
  try {
    await using postgres = values.polis === undefined ? undefined : await durablePostgres();
    const servers: InboxServerRequest[] = [
      { kind: "rollcall", folder },
      { kind: "scimmy", folder },
    ];
    if (values.polis !== undefined)
      servers.push(
        { kind: "polis", folder: values.polis },
        { kind: "polis", folder: values.polis, database: postgres?.url },
      );
    const timings = new Map<string, Pushed[]>();
    for (let round = 1; round <= rounds; round++)
      for (const server of servers) {
        const name = nameOf(server);
        console.error(`${name}, round ${round} …`);
        const own = server.kind === "rollcall" ? { ...server, folder: join(folder, String(round)) } : server;
        timings.set(name, [...(timings.get(name) ?? []), await push(own, users, clients)]);
      }
    const rates = [...timings].map(([name, all]) => ({
      name,
      rate: median(all.map(({ rate }) => rate)),
      cpu: median(all.map(({ cpu }) => cpu)),
    }));
    console.error(`${there} users …`);
    const found = await search({ kind: "rollcall", folder: join(folder, "many"), users: there });
    const header = ["", "", "requests a second", "CPU time"];
    const rows = rates.map(({ name, rate, cpu }) => [name, "", rate.toFixed(0), seconds(cpu)]);
    console.log(`${machine()}\n\n${table(header, rows)}`);
    console.log(found.map(([what, time]) => `${what}: ${time.toFixed(2)} ms\n`).join(""));
    return figuresOf(rates, found, clients, there);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Pushed {
  /** Requests a second. */
  readonly rate: number;
  /** Of the server, in milliseconds. */
  readonly cpu: number;
}

interface Rate extends Pushed {
  readonly name: string;
}

function nameOf({ kind, database }: InboxServerRequest): string {
  if (kind === "rollcall") return "Rollcall";
  if (kind === "scimmy") return "scimmy-routers, in memory";
  return database === undefined ? "Polis, in memory" : "Polis, in PostgreSQL";
}

async function durablePostgres(): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = await startPostgres({ isFast: false });
  return { url: await server.createDatabase(), [Symbol.asyncDispose]: () => server.stop() };
}

function figuresOf(rates: readonly Rate[], found: readonly Found[], clients: number, there: number): Figure[] {
  const [own, ...others] = rates as [Rate, ...Rate[]];
  return [
    ...others.map(({ name, rate, cpu }): Figure => ({
      what: `${clients} clients push, stored durably (${name}: CPU time ${Math.round(cpu)} ms)`,
      value: own.rate,
      unit: "a second",
      limit: { by: name, value: rate },
      cpu: own.cpu,
    })),
    ...found.map(([what, value]): Figure => ({
      what: `${there.toLocaleString("en")} users: ${what}`,
      value,
      unit: "ms",
      goal: what.startsWith("a search") ? 5 : undefined,
    })),
  ];
}

async function push(server: InboxServerRequest, users: number, clients: number): Promise<Pushed> {
  return withServer(server, async (send, pid) => {
    const before = await cpuTimes(pid);
    const started = performance.now();
    let next = 0;
    const work = async (): Promise<void> => {
      for (let user = next++; user < users; user = next++) await provision(send, `user-${user}@example.com`);
    };
    await Promise.all(Array.from({ length: clients }, work));
    const elapsed = performance.now() - started;
    const after = await cpuTimes(pid);
    return { rate: (3 * users * 1000) / elapsed, cpu: after.own - before.own };
  });
}

/** As Okta and Entra ID do. */
async function provision(send: Send, userName: string): Promise<void> {
  const asked = await send("GET", `/Users?filter=${encodeURIComponent(`userName eq "${userName}"`)}`);
  expect(asked.status === 200 && asked.body.totalResults === 0, "search", asked);
  const created = await send("POST", "/Users", {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    userName,
    active: true,
    displayName: "Somebody",
    name: { givenName: "Some", familyName: "Body" },
    emails: [{ value: userName, type: "work", primary: true }],
  });
  expect(created.status === 201, "POST", created);
  const patched = await send("PATCH", `/Users/${created.body.id}`, {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
    Operations: [{ op: "replace", value: { active: false } }],
  });
  expect(patched.status === 200 && patched.body.active === false, "PATCH", patched);
}

function expect(isAsExpected: boolean, what: string, answer: object): void {
  if (!isAsExpected) throw new Error(`${what}: ${JSON.stringify(answer)}`);
}

type Found = readonly [what: string, milliseconds: number];

/** The median time of a search, one after the other over HTTP. */
async function search(server: InboxServerRequest): Promise<Found[]> {
  const { users = 0 } = server;
  const filters: readonly (readonly [string, number, (user: number) => string])[] = [
    ["a search by userName", 300, (user) => `userName eq "There-${user}@example.com"`],
    ["a search by address", 300, (user) => `emails[type eq "work"].value eq "there-${user}@example.com"`],
    ["reading all for a name that contains something", 3, (user) => `displayName co "Somebody ${user}"`],
  ];
  return withServer(server, async (send) => {
    const found: Found[] = [];
    for (const [what, times, filter] of filters) {
      const taken: number[] = [];
      for (let number = 0; number < times; number++) {
        const path = `/Users?filter=${encodeURIComponent(filter(Math.floor((number * users) / times)))}`;
        const started = performance.now();
        const answer = await send("GET", path);
        taken.push(performance.now() - started);
        expect(answer.status === 200 && answer.body.totalResults > 0, what, answer);
      }
      found.push([what, median(taken)]);
    }
    return found;
  });
}

async function withServer<Result>(
  request: InboxServerRequest,
  work: (send: Send, pid: number) => Promise<Result>,
): Promise<Result> {
  const child = spawnProgram(new URL("inbox-server.ts", import.meta.url), [JSON.stringify(request)]);
  child.stderr.pipe(process.stderr);
  try {
    const [url] = (await once(child.stdout, "data")) as [Buffer];
    const client = clientOf(url.toString().trim());
    const result = await work(client.send, child.pid ?? 0);
    await client.close();
    return result;
  } finally {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
}
