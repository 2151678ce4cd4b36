import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { CopyRequest, CopyTiming } from "./copy.ts";
import type { LoadRequest, LoadTimings } from "./load-client.ts";
import { cpuTimes, machine, median, mebibytes, runApart, seconds, table, wholeNumber } from "./measure.ts";
import { startBenchPostgres } from "./postgres.ts";
import type { BenchPostgres } from "./postgres.ts";
import type { Figure } from "./results.ts";
import { columns, writeRows } from "./rows.ts";
import { administrator, startService } from "./service.ts";
import type { BenchService, Cost } from "./service.ts";

/**
 * `npm run bench -- load [--rows 5000000] [--rounds 3] [--small 100] [--memory 1024] [--engine postgres]`: a load of one large file from its first byte
 * to DONE, beside DuckDB's own COPY of the same file and beside `\copy` into PostgreSQL, and small loads one after
 * the other. Client and competitors are processes of their own, and take turns, so that noise meets all. Linux only.
 */
export async function load(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: "string", default: "5000000" },
      rounds: { type: "string", default: "3" },
      small: { type: "string", default: "100" },
      memory: { type: "string", default: "1024" },
      engine: { type: "string", default: "duckdb" },
    },
  });
  const isPostgres = values.engine === "postgres";
  const memory = wholeNumber(values.memory);
  const rows = wholeNumber(values.rows);
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const file = join(folder, "rows.csv");
    await writeRows(file, rows);
    const { size } = await stat(file);
    const rounds = await runRounds(folder, file, rows, wholeNumber(values.rounds), memory * 1024 ** 2, isPostgres);
    const count = wholeNumber(values.small);
    const small = isPostgres ? [] : await smallLoads(folder, memory * 1024 ** 2, count);
    console.log(`${machine()}; DuckDB with ${memory} MiB, in the service and alone.\n`);
    console.log(table(header, rowsOf(rounds, rows, size, memory * 1024 ** 2)));
    const ratio = (pick: (round: Round) => number): string => median(rounds.map(pick)).toFixed(2);
    console.log(
      `Rollcall beside \\copy, medians of the ratios: time ${ratio(({ own, postgres }) => own / postgres)}, ` +
        `processor time of all that takes part ${ratio(({ all }) => all.own / all.postgres)}.`,
    );
    const [p50, p99] = [0.5, 0.99].map((share) => small[Math.ceil(small.length * share) - 1] ?? Number.NaN) as [
      number,
      number,
    ];
    if (!isPostgres)
      console.log(
        `${count} loads of 1,000 rows one after the other: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms from the start of a cycle to its end.\n`,
      );
    console.log(legend);
    return figuresOf(rounds, rows, isPostgres).concat(
      isPostgres ? [] : { what: "1,000 rows, p50", value: p50, unit: "ms" },
      isPostgres ? [] : { what: "1,000 rows, p99", value: p99, unit: "ms" },
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The load beside its limits: DuckDB's COPY, and `\copy` into PostgreSQL. */
function figuresOf(rounds: readonly Round[], rows: number, isPostgres: boolean): Figure[] {
  const middle = (pick: (round: Round) => number): number => median(rounds.map(pick));
  const worst = (pick: (cost: Cost) => number): number => Math.max(...rounds.map(({ cost }) => pick(cost)));
  const what = `${rows.toLocaleString("en")} rows${isPostgres ? " into PostgreSQL" : ""}`;
  const value = middle(({ own }) => own);
  const limits = [
    { by: "DuckDB's COPY", value: middle(({ copy }) => copy.milliseconds), goal: isPostgres ? undefined : 1.5 },
    { by: "psql's \\copy", value: middle(({ postgres }) => postgres), goal: isPostgres ? 1.15 : 1 },
  ];
  return limits.map(({ goal, ...limit }) => ({
    what,
    value,
    unit: "ms",
    limit,
    goal,
    cpu: worst(({ cpu }) => cpu),
    memory: worst(({ memory }) => memory),
    eventLoop: worst(({ eventLoop }) => eventLoop.p99),
  }));
}

const header = [
  "rows",
  "by",
  "bytes",
  "time",
  "× DuckDB",
  "rows a second",
  "CPU time",
  "peak memory",
  "event loop p99 (max)",
];

const legend = `Times are medians. Rollcall: from the first byte that the client sends, through the upload, to DONE; its CPU time and
memory are the service's, the worst of all rounds. DuckDB: COPY of the file into a new table, in a process of its own.
told: with the format given, so that it need not look for it. PostgreSQL: psql's \\copy into a new table.`;

interface Round {
  readonly own: number;
  readonly cost: Cost;
  readonly copy: CopyTiming;
  readonly told: CopyTiming;
  readonly postgres: number;
  /** Processor times of all that takes part, client and PostgreSQL included, in milliseconds. */
  readonly all: { readonly own: number; readonly postgres: number };
}

async function runRounds(
  folder: string,
  file: string,
  rows: number,
  count: number,
  memory: number,
  isPostgres: boolean,
): Promise<Round[]> {
  const rounds: Round[] = [];
  const postgres = await startBenchPostgres();
  try {
    for (let number = 1; number <= count; number++) {
      const place = join(folder, "round");
      await mkdir(place);
      const url = isPostgres ? await postgres.createDatabase() : undefined;
      const { milliseconds: own, cost, all } = await loadOnce(place, file, rows, memory, url, postgres);
      const copying = { file, memory };
      const copy = await copyOnce({ ...copying, database: join(place, "copy.duckdb"), detect: true });
      const told = await copyOnce({ ...copying, database: join(place, "told.duckdb"), detect: false });
      await rm(place, { recursive: true });
      const before = await cpuWith(postgres);
      const copied = await postgres.copy(file);
      const after = await cpuWith(postgres);
      const round: Round = { own, cost, copy, told, postgres: copied, all: { own: all, postgres: after - before } };
      rounds.push(round);
      console.error(
        `round ${number}: Rollcall ${seconds(own)} (CPU ${seconds(cost.cpu)}), DuckDB ${seconds(copy.milliseconds)} ` +
          `(CPU ${seconds(copy.cpu)}), told ${seconds(told.milliseconds)} (CPU ${seconds(told.cpu)}), ` +
          `PostgreSQL ${seconds(round.postgres)}; CPU of all ${seconds(all)}, PostgreSQL ${seconds(round.all.postgres)}`,
      );
    }
  } finally {
    await postgres.stop();
  }
  return rounds;
}

function copyOnce(request: CopyRequest): Promise<CopyTiming> {
  return runApart<CopyTiming>("copy.ts", request);
}

async function loadOnce(
  folder: string,
  file: string,
  rows: number,
  memory: number,
  url: string | undefined,
  postgres: BenchPostgres,
): Promise<{ milliseconds: number; cost: Cost; all: number }> {
  return withService(folder, memory, url, async (service) => {
    const before = await cpuWith(postgres);
    const { result, cost } = await service.watch(() => loadWith(service, file, 1));
    const all = cost.cpu + (await cpuWith(postgres)) - before;
    if (result.written !== rows) throw new Error(`${result.written} rows were written instead of ${rows}`);
    return { milliseconds: result.loads[0]?.milliseconds ?? Number.NaN, cost, all };
  });
}

/** The processor time of PostgreSQL, and of the processes that have been run beside it and have ended. */
async function cpuWith(postgres: BenchPostgres): Promise<number> {
  return (await postgres.cpu()) + (await cpuTimes("self")).ended;
}

/** One after the other, into one table. @returns milliseconds, from the start of a cycle to its end, in ascending order */
async function smallLoads(folder: string, memory: number, count: number): Promise<number[]> {
  const file = join(folder, "small.csv");
  await writeRows(file, 1000);
  const place = join(folder, "small");
  await mkdir(place);
  return withService(place, memory, undefined, async (service) => {
    const { loads } = await loadWith(service, file, count);
    return loads.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
  });
}

async function withService<Result>(
  folder: string,
  memory: number,
  url: string | undefined,
  work: (service: BenchService) => Promise<Result>,
): Promise<Result> {
  const tables = `CREATE DATABASE IF NOT EXISTS bench; CREATE TABLE IF NOT EXISTS bench.rows (${columns});`;
  const file = join(folder, "tables.sql");
  await writeFile(file, tables);
  const service = await startService(folder, {
    memory,
    settings: { tables: file, ...(url === undefined ? {} : { engine: { postgres: url } }) },
  });
  try {
    return await work(service);
  } finally {
    await service.stop();
  }
}

function loadWith({ url }: BenchService, file: string, times: number): Promise<LoadTimings> {
  const { name: username, password } = administrator;
  return runApart<LoadTimings>("load-client.ts", {
    url,
    username,
    password,
    file,
    table: "rows",
    times,
  } satisfies LoadRequest);
}

function rowsOf(rounds: readonly Round[], rows: number, size: number, memory: number): string[][] {
  const middle = (pick: (round: Round) => number): number => median(rounds.map(pick));
  const worst = (pick: (cost: Cost) => number): number => Math.max(...rounds.map(({ cost }) => pick(cost)));
  const copy = middle((round) => round.copy.milliseconds);
  const line = (by: string, milliseconds: number, more: readonly string[] = []): string[] => [
    rows.toLocaleString("en"),
    by,
    mebibytes(size),
    seconds(milliseconds),
    (milliseconds / copy).toFixed(2),
    Math.round((rows * 1000) / milliseconds).toLocaleString("en"),
    ...more,
    ...Array.from({ length: 3 - more.length }, () => ""),
  ];
  const peak = worst(({ memory }) => memory);
  return [
    line(
      "Rollcall",
      middle(({ own }) => own),
      [
        seconds(worst(({ cpu }) => cpu)),
        `${mebibytes(peak)} (limit ${peak > memory ? "+" : "−"} ${mebibytes(Math.abs(peak - memory))})`,
        `${worst(({ eventLoop }) => eventLoop.p99).toFixed(1)} (${worst(({ eventLoop }) => eventLoop.max).toFixed(0)}) ms`,
      ],
    ),
    line("DuckDB", copy, [seconds(middle((round) => round.copy.cpu))]),
    line(
      "DuckDB, told",
      middle((round) => round.told.milliseconds),
      [seconds(middle((round) => round.told.cpu))],
    ),
    line(
      "PostgreSQL",
      middle((round) => round.postgres),
    ),
  ];
}
