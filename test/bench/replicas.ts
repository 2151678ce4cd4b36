import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import autocannon from "autocannon";
import { Client } from "undici";
import { administrationRoutes, familyB, pinboardRoutes, sessionCookie } from "#wire/routes.ts";
import { startBalancer } from "../support/balancer.ts";
import { startPostgres } from "../support/postgres.ts";
import { machine, median, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import { administrator, startService } from "./service.ts";

const most = 3;

/** A multiple of every number of replicas, so that each gets as many. */
const connections = 12;

const pinboard = "00000000-0000-4000-8000-000000000000";
const visualization = "00000000-0000-4000-8000-000000000001";

/** What is asked for, below family B's path. */
const reads = {
  "session check": pinboardRoutes.headers.path,
  "user/list": administrationRoutes.userList.path,
  "pinboard query": `${pinboardRoutes.dataByGet.path}?id=${pinboard}&vizid=${visualization}&batchsize=`,
};
type Read = keyof typeof reads;

const tables = `
  CREATE SCHEMA IF NOT EXISTS d;
  CREATE TABLE IF NOT EXISTS d.orders (id bigint PRIMARY KEY, region text, net numeric(12, 2));`;

/**
 * `npm run bench -- postgres [--users 100] [--rows 10000] [--rounds 3] [--seconds 3] [--brief]`: reads per second from one, two and three
 * services on one PostgreSQL, behind a balancer that hands out connections in turn, beside those of one in the same run.
 * Clients, balancer, services and PostgreSQL are all on this machine. `--brief`: nothing is warmed up.
 */
export async function replicas(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      users: { type: "string", default: "100" },
      rows: { type: "string", default: "10000" },
      rounds: { type: "string", default: "3" },
      seconds: { type: "string", default: "3" },
      brief: { type: "boolean", default: false },
    },
  });
  const [rounds, seconds] = [wholeNumber(values.rounds), wholeNumber(values.seconds)];
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-replicas-"));
  const server = await startPostgres({ isFast: false });
  const stack = new AsyncDisposableStack();
  try {
    const url = await server.createDatabase();
    const services = await startAll(folder, url, stack);
    const [first] = services;
    if (first === undefined) throw new Error("no service");
    const balancer = await startBalancer(services);
    stack.defer(() => balancer.close());
    const session = await logIn(first);
    await createUsers(first, session, wholeNumber(values.users));
    const client = await server.connect(new URL(url).pathname.slice(1));
    await client.query(
      `INSERT INTO d.orders SELECT i, 'region ' || i % 12, i % 1000 FROM generate_series(1, ${wholeNumber(values.rows)}) AS r (i)`,
    );
    await client.end();
    const figures = new Map<string, number[]>();
    const keyOf = (read: string, count: number): string => `${read} ${count}`;
    for (let round = values.brief ? 1 : 0; round <= rounds; round++) {
      for (const [read, path] of Object.entries(reads)) {
        for (let count = 1; count <= most; count++) {
          balancer.to(services.slice(0, count));
          const figure = await perSecond(balancer.url, familyB + path, session, seconds);
          console.error(`${read}, ${count}: ${figure.toFixed(0)} a second${round === 0 ? " (to warm up)" : ""}`);
          if (round > 0) figures.set(keyOf(read, count), [...(figures.get(keyOf(read, count)) ?? []), figure]);
        }
      }
    }
    console.log(
      `${machine()}; PostgreSQL 18 as it comes, services, balancer and ${connections} clients all share these processors: ` +
        "with two of them, more services cannot be more than twice as fast as one that uses one.\n",
    );
    const of = (read: Read, count: number): number => median(figures.get(keyOf(read, count)) ?? []);
    console.log(
      table(
        ["read", "1 service", "2 services", "3 services", "ratio of 2", "ratio of 3"],
        (Object.keys(reads) as Read[]).map((read) => [
          read,
          ...[1, 2, 3].map((count) => `${of(read, count).toFixed(0)}/s`),
          ...[2, 3].map((count) => (of(read, count) / of(read, 1)).toFixed(2)),
        ]),
      ),
    );
    return (Object.keys(reads) as Read[]).flatMap((read) =>
      Array.from({ length: most }, (_, index): Figure => {
        const limit = { by: "1 service", value: of(read, 1) };
        return {
          what: `${read}, ${index + 1} ${index === 0 ? "service" : "services"} on one PostgreSQL`,
          value: of(read, index + 1),
          unit: "a second",
          limit: index === 0 ? undefined : limit,
        };
      }),
    );
  } finally {
    await stack.disposeAsync();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** @returns their URLs */
async function startAll(folder: string, url: string, stack: AsyncDisposableStack): Promise<readonly string[]> {
  await mkdir(join(folder, "pinboards"));
  await writeFile(join(folder, "tables.sql"), tables);
  const sql = "SELECT region, sum(net) AS net FROM orders GROUP BY region ORDER BY region";
  const shown = { id: visualization, name: "v", title: "V", type: "TABLE", database: "d", sql };
  // JSON is YAML.
  const text = JSON.stringify({ id: pinboard, name: "Test", visualizations: [shown] });
  await writeFile(join(folder, "pinboards", "test.yaml"), text);
  const urls: string[] = [];
  for (let replica = 1; replica <= most; replica++) {
    const own = join(folder, String(replica));
    await mkdir(own);
    const settings = {
      engine: { postgres: url },
      tables: join(folder, "tables.sql"),
      pinboards: join(folder, "pinboards"),
    };
    const service = await startService(own, { memory: 256 * 1024 ** 2, settings });
    stack.defer(() => service.stop());
    urls.push(service.url);
  }
  return urls;
}

async function post(url: string, path: string, form: Record<string, string>, session = ""): Promise<string> {
  const client = new Client(url);
  const { statusCode, headers, body } = await client.request({
    method: "POST",
    path: familyB + path,
    headers: { "content-type": "application/x-www-form-urlencoded", cookie: `${sessionCookie}=${session}` },
    body: new URLSearchParams(form).toString(),
  });
  const text = await body.text();
  await client.close();
  if (statusCode >= 300) throw new Error(`${path} was answered ${statusCode}: ${text}`);
  return String([headers["set-cookie"]].flat()[0]);
}

/** @returns the cookie value of a session, which is valid at all of them */
async function logIn(url: string): Promise<string> {
  const { name, password } = administrator;
  const cookie = await post(url, administrationRoutes.login.path, { username: name, password });
  return cookie.replace(/;.*/, "").slice(sessionCookie.length + 1);
}

async function createUsers(url: string, session: string, users: number): Promise<void> {
  const principals = Array.from({ length: users }, (_, index) => ({
    name: `user ${index}`,
    displayName: `User ${index}`,
    mail: `user${index}@example.com`,
    principalTypeEnum: "LOCAL_USER",
    groupNames: ["All"],
  }));
  const form = { applyChanges: "true", defaultPassword: "for-new-users", principals: JSON.stringify(principals) };
  await post(url, administrationRoutes.userSync.path, form, session);
}

async function perSecond(url: string, path: string, session: string, seconds: number): Promise<number> {
  let connection = 0;
  const headers = { cookie: `${sessionCookie}=${session}`, accept: "application/json" };
  const { requests, non2xx, errors } = await autocannon({
    url,
    connections,
    duration: seconds,
    // Each asks for another page: requests for the same one would share a query.
    setupClient: (client) => {
      connection += 1;
      client.setRequests([{ headers, path: path.replace("batchsize=", `batchsize=${100 + connection}`) }]);
    },
  });
  if (non2xx > 0 || errors > 0) throw new Error(`${url}: ${non2xx} refused, ${errors} failed`);
  return requests.average;
}
