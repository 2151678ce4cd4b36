import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import autocannon from "autocannon";
import { Client } from "undici";
import { openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import { compactData } from "#wire/pinboards.ts";
import { familyB, pinboardRoutes, sessionCookie } from "#wire/routes.ts";
import { executed } from "../contract/engine/stage.ts";
import { machine, table } from "./measure.ts";
import type { Figure } from "./results.ts";
import { startService } from "./service.ts";
import type { BenchService } from "./service.ts";

/** The visualizations of the pinboard, by name. */
const queries: Readonly<Record<string, string>> = {
  total: "SELECT count(*) AS orders, sum(net) AS net FROM orders",
  "by month":
    "SELECT date_trunc('month', day) AS month, sum(net) AS net, sum(quantity) AS quantity FROM orders GROUP BY ALL ORDER BY month",
  "by region and product":
    "SELECT region, product, sum(net) AS net, count(DISTINCT customer) AS customers FROM orders GROUP BY ALL ORDER BY ALL",
  "best customers":
    "SELECT customer, sum(net) AS net, count(*) AS orders FROM orders GROUP BY customer ORDER BY net DESC, customer LIMIT 20",
  "typical order":
    "SELECT region, median(net) AS median, quantile_cont(net, 0.9) AS high FROM orders GROUP BY region ORDER BY region",
  "latest orders": "SELECT * FROM orders ORDER BY day DESC, id DESC LIMIT 100",
};

/** Not on that pinboard: its first 1,000 rows are what requests per second are counted with. */
const rowsQuery = "SELECT * FROM orders";

const tableOf = (rows: number): string => `
  CREATE TABLE orders AS SELECT
    i AS id, DATE '2021-01-01' + (hash(i) % 1800)::INTEGER AS day, 'region ' || (hash(i, 1) % 12) AS region,
    (hash(i, 2) % 50000)::INTEGER AS customer, 'product ' || (hash(i, 3) % 40) AS product,
    (hash(i, 4) % 20 + 1)::INTEGER AS quantity, ((hash(i, 5) % 100000) / 100)::DECIMAL(12, 2) AS net,
    'a note of some length about order ' || i AS note
  FROM range(${rows}) r(i)`;

const pinboard = "00000000-0000-4000-8000-000000000000";
const rowsPinboard = "00000000-0000-4000-8000-100000000000";
const idOf = (name: string): string =>
  `00000000-0000-4000-8000-${String(Object.keys(queries).indexOf(name) + 1).padStart(12, "0")}`;
const rowsId = "00000000-0000-4000-8000-100000000001";

/**
 * `npm run bench -- pinboard [--rows 1000000] [--rounds 40] [--memory 1024] [--seconds 10]`: a pinboard of six
 * visualizations over one table, beside the same SQL on DuckDB directly, whose queries run side by side as well; the two
 * take turns, so that noise meets both. Then requests per second of an answer with 1,000 rows. Linux only.
 */
export async function pinboards(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: "string", default: "1000000" },
      rounds: { type: "string", default: "40" },
      memory: { type: "string", default: "1024" },
      seconds: { type: "string", default: "10" },
    },
  });
  const [rows, rounds, seconds] = [Number(values.rows), Number(values.rounds), Number(values.seconds)];
  const memory = Number(values.memory) * 1024 ** 2;
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const file = await prepare(folder, rows, memory);
    const database = await openDatabase({ path: file, memory, spill: join(folder, "spill") });
    const service = await startService(folder, { memory, settings: { pinboards: join(folder, "pinboards") } });
    console.log(
      `${machine()}; DuckDB with ${values.memory} MiB, in the service and alone; ${rows.toLocaleString("en")} rows.\n`,
    );
    try {
      const [compared, hammered] = [await compare(service, database, rounds), await hammer(service, rows, seconds)];
      console.log(compared.text);
      console.log(hammered.text);
      return [...compared.figures, ...hammered.figures];
    } finally {
      await service.stop();
      database.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes the service's database, the pinboards, and a copy of the database's file, whose path it returns. */
async function prepare(folder: string, rows: number, memory: number): Promise<string> {
  const databases = join(folder, "data", "service", "databases");
  const engine = await openDuckDbEngine({ folder: databases, memory });
  const never = new AbortController().signal;
  await executed(engine, undefined, "CREATE DATABASE shop", never);
  await executed(engine, "shop", tableOf(rows), never);
  await engine.close();
  const copy = join(folder, "alone.duckdb");
  await copyFile(join(databases, "shop.duckdb"), copy);
  await mkdir(join(folder, "pinboards"));
  const write = async (id: string, visualizations: readonly (readonly [string, string, string])[]): Promise<void> => {
    const listed = visualizations.map(([id, name, sql]) => ({
      id,
      name,
      title: name,
      type: "TABLE",
      database: "shop",
      sql,
    }));
    await writeFile(join(folder, "pinboards", `${id}.yaml`), JSON.stringify({ id, name: id, visualizations: listed }));
  };
  await write(
    pinboard,
    Object.entries(queries).map(([name, sql]) => [idOf(name), name, sql]),
  );
  await write(rowsPinboard, [[rowsId, "rows", rowsQuery]]);
  return copy;
}

const headersOf = ({ session }: BenchService) => ({
  cookie: `${sessionCookie}=${session}`,
  accept: "application/json",
});
const pathOf = (parameters: Readonly<Record<string, string>>): string =>
  `${familyB}${pinboardRoutes.data.path}?${new URLSearchParams(parameters).toString()}`;

/** A table and its figures. */
interface Outcome {
  readonly text: string;
  readonly figures: readonly Figure[];
}

/** Each visualization by itself, then all of them. */
async function compare(service: BenchService, database: Database, rounds: number): Promise<Outcome> {
  const client = new Client(service.url, { headersTimeout: 0, bodyTimeout: 0 });
  const connections = await Promise.all(
    Object.values(queries).map(async (sql) => {
      const connection = await database.connect();
      await connection.run("USE core_default_schema");
      return { connection, sql };
    }),
  );
  const ask = async (ids: readonly string[]): Promise<number> => {
    const { statusCode, body } = await client.request({
      method: "POST",
      path: pathOf({ id: pinboard, vizid: `[${ids.join(",")}]` }),
      headers: headersOf(service),
    });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`pinboarddata: ${statusCode} ${text}`);
    return Object.values(compactData.parse(JSON.parse(text))).reduce((sum, { rowCount }) => sum + rowCount, 0);
  };
  const alone = async (chosen: typeof connections): Promise<number> => {
    const all = await Promise.all(chosen.map(async ({ connection, sql }) => (await connection.rows(sql)).length));
    return all.reduce((sum, count) => sum + count, 0);
  };
  const names = Object.keys(queries);
  const lines: string[][] = [];
  const figures: Figure[] = [];
  for (const [what, chosen] of [...names.map((name) => [name, [name]] as const), ["all six", names] as const]) {
    const ids = chosen.map(idOf);
    const own = connections.filter((_, index) => chosen.includes(names[index] ?? ""));
    const times: { service: number[]; alone: number[] } = { service: [], alone: [] };
    for (let round = -3; round < rounds; round++) {
      const before = performance.now();
      const answered = await ask(ids);
      const between = performance.now();
      const counted = await alone(own);
      const after = performance.now();
      // A bench of a service that answers something else is worth nothing.
      if (answered !== counted) throw new Error(`${what}: the service answers ${answered} rows, DuckDB ${counted}`);
      if (round < 0) continue;
      times.service.push(between - before);
      times.alone.push(after - between);
    }
    const [p50, p50Alone] = [quantile(times.service, 0.5), quantile(times.alone, 0.5)];
    const cells = [p50, p50Alone].map(milliseconds).concat((p50 / p50Alone).toFixed(2));
    const p99 = [times.service, times.alone].map((each) => milliseconds(quantile(each, 0.99)));
    figures.push({ what: `${what}, p50`, value: p50, unit: "ms", limit: { by: "DuckDB alone", value: p50Alone } });
    lines.push([what, String(rounds), ...cells, ...p99]);
    console.error(lines.at(-1)?.join(", "));
  }
  await client.close();
  for (const { connection } of connections) connection.close();
  const header = ["visualization", "requests", "p50", "DuckDB alone", "ratio", "p99", "DuckDB alone, p99"];
  return { text: table(header, lines), figures };
}

/** Requests as fast as they come, for 1,000 rows of eight columns: all for the same page, and each for another. */
async function hammer(service: BenchService, rows: number, seconds: number): Promise<Outcome> {
  const lines: string[][] = [];
  const figures: Figure[] = [];
  const page = (number: number): string =>
    pathOf({ id: rowsPinboard, batchsize: "1000", pagenumber: String(number + 1) });
  for (const [what, pages] of [
    ["the same page", 1],
    ["other pages", Math.max(1, Math.floor(rows / 1000) - 1)],
  ] as const) {
    for (const connections of [1, 10, 50]) {
      const { result, cost } = await service.watch(() =>
        autocannon({
          url: service.url,
          headers: headersOf(service),
          connections,
          duration: seconds,
          requests: Array.from({ length: pages }, (_, number) => ({ path: page((number * 389) % pages) })),
          // Every connection begins somewhere else.
          setupClient: (client) => {
            client.setRequest({ path: page(Math.floor(Math.random() * pages)) });
          },
        }),
      );
      if (result.non2xx > 0 || result.errors > 0) throw new Error(`${result.non2xx} refused, ${result.errors} failed`);
      const { requests, latency, throughput } = result;
      figures.push({
        what: `1,000 rows, ${what}, ${connections} connections`,
        value: requests.average,
        unit: "a second",
        cpu: cost.cpu,
        memory: cost.memory,
        eventLoop: cost.eventLoop.p99,
      });
      lines.push([
        what,
        String(connections),
        requests.average.toFixed(0),
        ...[latency.p50, latency.p99].map((time) => `${time.toFixed(0)} ms`),
        `${(throughput.average / 1024 ** 2).toFixed(1)} MiB/s`,
        `${cost.eventLoop.p99.toFixed(1)} (${cost.eventLoop.max.toFixed(0)}) ms`,
      ]);
      console.error(lines.at(-1)?.join(", "));
    }
  }
  const header = ["1,000 rows", "connections", "requests a second", "p50", "p99", "sent", "event loop p99 (max)"];
  return { text: table(header, lines), figures };
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;
}

function milliseconds(time: number): string {
  return `${time.toFixed(1)} ms`;
}
