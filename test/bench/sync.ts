import { cp, mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { syncResult } from "#wire/administration.ts";
import type { ClientRequest, Timing } from "./client.ts";
import { writeDirectory, writeForm } from "./directory.ts";
import type { Differences, LimitRequest, LimitTiming } from "./limit.ts";
import { machine, mebibytes, median, runApart, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import { startService } from "./service.ts";
import type { BenchService, Cost } from "./service.ts";

/** One measurement of the service. */
interface Sample extends Timing {
  readonly cost: Cost;
}

/** The measurements of one operation, over all rounds. */
interface Samples {
  readonly bytes: number;
  readonly service: Sample[];
  readonly limit: LimitTiming[];
}

const operations = ["list", "preview", "apply"] as const;
type Operation = (typeof operations)[number];

/** Names, memory limit (bytes) and files of the bench at one size. */
interface Setting {
  readonly folder: string;
  readonly memory: number;
  readonly actual: string;
  readonly drifted: string;
  readonly forms: Record<"load" | "preview" | "apply", string>;
  readonly database: string;
}

/**
 * `npm run bench -- sync [--n 10000,100000] [--rounds 3] [--memory 1024]`: the service's list, preview and apply of a
 * directory with 1 % drift beside what DuckDB alone takes for the same bytes. Every request is a process of its own,
 * every round has a service of its own, and service and limit take turns, so that noise meets both. Linux only.
 */
export async function sync(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      n: { type: "string", default: "10000,100000,1000000" },
      rounds: { type: "string" },
      memory: { type: "string", default: "1024" },
    },
  });
  const rows: string[][] = [];
  const figures: Figure[] = [];
  const memory = wholeNumber(values.memory);
  for (const users of values.n.split(",").map(wholeNumber)) {
    const rounds = values.rounds === undefined ? (users > 100_000 ? 3 : 5) : wholeNumber(values.rounds);
    const measured = await benchAt(users, rounds, memory * 1024 ** 2);
    rows.push(...measured.rows);
    figures.push(...measured.figures);
  }
  console.log(`${machine()}; DuckDB with ${memory} MiB, in the service and alone.\n`);
  console.log(table(header, rows));
  console.log(legend);
  return figures;
}

const header = [
  "users",
  "operation",
  "bytes",
  "Rollcall",
  "DuckDB alone",
  "ratio",
  "peak memory",
  "event loop p99 (max)",
  "`/healthz` p99 (max)",
];

const legend = `Times are medians, from the first byte of the request to the last of the answer; memory and delays are those of the
service, the worst of all rounds, \`/healthz\` as a client beside sees it. The service was started for the round. DuckDB alone: for list, it writes its table
as JSON; for preview and apply, it reads the same list from disk and joins it with its table.`;

async function benchAt(
  users: number,
  rounds: number,
  memory: number,
): Promise<{ rows: string[][]; figures: Figure[] }> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const setting = await prepare(folder, users, memory);
    const { size: listed } = await stat(setting.actual);
    const { size: sent } = await stat(setting.drifted);
    const samples: Record<Operation, Samples> = {
      list: { bytes: listed, service: [], limit: [] },
      preview: { bytes: sent, service: [], limit: [] },
      apply: { bytes: sent, service: [], limit: [] },
    };
    const load = await firstLoad(setting);
    say(users, `first load ${seconds(load.milliseconds)} (CPU ${seconds(load.cost.cpu)})`);
    for (let round = 1; round <= rounds; round++) {
      await runRound(setting, samples);
      for (const operation of operations) {
        const [own, limit] = [samples[operation].service.at(-1), samples[operation].limit.at(-1)];
        say(
          users,
          `round ${round}: ${operation} ${seconds(own?.milliseconds)} (CPU ${seconds(own?.cost.cpu)}), ` +
            `DuckDB alone ${seconds(limit?.milliseconds)} (CPU ${seconds(limit?.cpu)})`,
        );
      }
    }
    const size = users.toLocaleString("en");
    const rows = operations.map((operation) => [size, operation].concat(summary(samples[operation])));
    const first: Figure = {
      ...costOf([load]),
      what: `${size} users, first load`,
      value: load.milliseconds,
      unit: "ms",
    };
    return {
      rows: [[size, "first load", ...cells(listed, load.milliseconds, undefined, load.cost)], ...rows],
      figures: [first, ...operations.map((operation) => figureOf(users, operation, samples[operation]))],
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function prepare(folder: string, users: number, memory: number): Promise<Setting> {
  const file = (name: string): string => join(folder, name);
  const setting: Setting = {
    folder,
    memory,
    actual: file("actual.json"),
    drifted: file("drifted.json"),
    forms: { load: file("load.form"), preview: file("preview.form"), apply: file("apply.form") },
    database: file("limit.duckdb"),
  };
  const { actual, drifted, forms } = setting;
  await writeDirectory(actual, users, "actual");
  await writeDirectory(drifted, users, "drifted");
  const defaultPassword = "a-password-for-new-users";
  await writeForm(forms.load, actual, { applyChanges: "true", defaultPassword });
  await writeForm(forms.preview, drifted, { applyChanges: "false", defaultPassword });
  await writeForm(forms.apply, drifted, { applyChanges: "true", defaultPassword });
  await limit(setting, { work: "load", list: actual });
  return setting;
}

/** Fills the data folder that every round begins with. */
async function firstLoad(setting: Setting): Promise<Sample> {
  const folder = join(setting.folder, "loaded");
  await mkdir(folder);
  const service = await startService(folder, setting);
  try {
    return await request(service, setting, setting.forms.load);
  } finally {
    await service.stop();
  }
}

async function runRound(setting: Setting, samples: Record<Operation, Samples>): Promise<void> {
  await withService(setting, async (service, folder) => {
    samples.list.service.push(await request(service, setting));
    samples.list.limit.push(await limit(setting, { work: "write", list: join(folder, "written.json") }));
    await sample(service, setting, "preview", samples.preview);
    await sample(service, setting, "apply", samples.apply);
  });
}

async function sample(
  service: BenchService,
  setting: Setting,
  form: "preview" | "apply",
  into: Samples,
): Promise<void> {
  into.service.push(await request(service, setting, setting.forms[form]));
  const alone = await limit(setting, { work: "join", list: setting.drifted });
  into.limit.push(alone);
  await compare(answerOf(setting), alone.differences);
}

/** A service of its own on a copy of what was loaded. */
async function withService(
  setting: Setting,
  work: (service: BenchService, folder: string) => Promise<void>,
): Promise<void> {
  const folder = join(setting.folder, "round");
  await cp(join(setting.folder, "loaded"), folder, { recursive: true });
  const service = await startService(folder, setting);
  try {
    await work(service, folder);
  } finally {
    await service.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function request(service: BenchService, setting: Setting, form?: string): Promise<Sample> {
  const { url, session } = service;
  const asked: ClientRequest = { url, session, answer: answerOf(setting), ...(form === undefined ? {} : { form }) };
  const { result, cost } = await service.watch(() => runApart<Timing>("client.ts", asked));
  return { ...result, cost };
}

function limit({ database, memory }: Setting, work: Pick<LimitRequest, "work" | "list">): Promise<LimitTiming> {
  return runApart("limit.ts", { ...work, database, memory } satisfies LimitRequest);
}

function answerOf({ folder }: Setting): string {
  return join(folder, "answer.json");
}

/** A bench of a service that answers something else is worth nothing. */
async function compare(file: string, expected: Differences): Promise<void> {
  const answer = syncResult.parse(JSON.parse(await readFile(file, "utf8")));
  for (const [array, names] of Object.entries(answer)) {
    if (names.length === (expected[array] ?? 0)) continue;
    throw new Error(`the service answers ${names.length} ${array}, DuckDB finds ${expected[array] ?? 0}`);
  }
}

function figureOf(users: number, operation: Operation, { service, limit }: Samples): Figure {
  const goals: Record<Operation, number | undefined> = {
    list: undefined,
    preview: 3,
    apply: 3.5,
  };
  const middle = (samples: readonly Timing[]): number => median(samples.map(({ milliseconds }) => milliseconds));
  return {
    ...costOf(service),
    what: `${users.toLocaleString("en")} users, ${operation}`,
    value: middle(service),
    unit: "ms",
    limit: { by: "DuckDB alone", value: middle(limit) },
    goal: goals[operation],
  };
}

/** Of several, the worst. */
function costOf(samples: readonly Sample[]): Pick<Figure, "cpu" | "memory" | "eventLoop"> {
  const worst = (pick: (cost: Cost) => number): number => Math.max(...samples.map(({ cost }) => pick(cost)));
  return {
    cpu: worst(({ cpu }) => cpu),
    memory: worst(({ memory }) => memory),
    eventLoop: worst(({ eventLoop }) => eventLoop.p99),
  };
}

/** Times are medians, costs the worst of all rounds. */
function summary({ bytes, service, limit }: Samples): string[] {
  const middle = (samples: readonly Timing[]): number => median(samples.map(({ milliseconds }) => milliseconds));
  const worst = (pick: (cost: Cost) => number): number => Math.max(...service.map(({ cost }) => pick(cost)));
  return cells(bytes, middle(service), middle(limit), {
    memory: worst(({ memory }) => memory),
    eventLoop: { p99: worst(({ eventLoop }) => eventLoop.p99), max: worst(({ eventLoop }) => eventLoop.max) },
    health: { p99: worst(({ health }) => health.p99), max: worst(({ health }) => health.max) },
  });
}

function cells(bytes: number, own: number, alone: number | undefined, cost: Omit<Cost, "cpu">): string[] {
  return [
    mebibytes(bytes),
    seconds(own),
    seconds(alone),
    alone === undefined ? "" : (own / alone).toFixed(2),
    mebibytes(cost.memory),
    ...[cost.eventLoop, cost.health].map(({ p99, max }) => `${p99.toFixed(1)} (${max.toFixed(0)}) ms`),
  ];
}

function say(users: number, line: string): void {
  console.error(`${users.toLocaleString("en")} users: ${line}`);
}
