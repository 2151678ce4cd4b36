import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync } from "node:fs";
import { glob, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Client } from "undici";
import { literal, openDatabase } from "#duckdb/database.ts";
import type { RunRecord } from "#state/record.ts";
import { sessionCookie } from "#wire/routes.ts";
import { megabytes } from "./at-rest.ts";
import type { ClientRequest, Timing } from "./client.ts";
import { writeDirectory, writeForm } from "./directory.ts";
import { machine, median, runApart, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import { administrator } from "./service.ts";

const rollcall = fileURLToPath(new URL("../../bin/rollcall.js", import.meta.url));

/** What a page takes at most, in milliseconds and bytes. */
const goals = { time: 300, bytes: 300_000 } as const;

/** The whole group: everybody is in it through the others. */
const whole = "team-00000";

/** The pages that are measured, and the file that DuckDB alone reads for comparison. @param run the pending one */
const pagesOf = (run: string): readonly (readonly [name: string, path: string, file: "changes" | "principal"])[] => {
  const plan = `/runs/${run}/plan`;
  const people = (query: Record<string, string>, path = ""): string =>
    `/people${path}?${new URLSearchParams(query).toString()}`;
  return [
    ["overview", "/", "changes"],
    ["runs", "/runs", "changes"],
    ["a run", `/runs/${run}`, "changes"],
    ["a plan", plan, "changes"],
    ["its updated users", `${plan}?action=update&kind=user`, "changes"],
    ["the last of them", `${plan}?action=update&kind=user&from=1000000000`, "changes"],
    ["by a part of a name", `${plan}?name=9999`, "changes"],
    ["by attribute", `${plan}?attribute=mail`, "changes"],
    ["by group", `${plan}?group=everybody`, "changes"],
    ["approve", `/runs/${run}/approve`, "changes"],
    ["approve a part by name", `/runs/${run}/approve?action=create&name=u100`, "changes"],
    ["by source", `${plan}?source=company`, "changes"],
    ["in doubt", "/doubt", "changes"],
    ["its records as CSV", "/doubt/download?what=quarantined", "changes"],
    ["audit", "/audit", "changes"],
    ["people and groups", "/people", "principal"],
    ["the last of them", "/people?from=999000", "principal"],
    ["search by a part of a name", people({ text: "lovelace 4242" }), "principal"],
    ["search, everybody matches", people({ text: "example.com" }), "principal"],
    ["search, nobody does", people({ text: "nobody-like-that" }), "principal"],
    ["groups alone", people({ kind: "group" }), "principal"],
    ["a user", people({ name: "u0004242" }, "/user"), "principal"],
    ["a group", people({ name: "team-00001" }, "/group"), "principal"],
    ["everybody, nested", people({ name: whole, nested: "yes" }, "/group"), "principal"],
    ["the last of them", people({ name: whole, nested: "yes", from: "900000" }, "/group"), "principal"],
    ["a user's history", people({ name: "u0004242", kind: "user" }, "/history"), "changes"],
  ];
};

/**
 * `npm run bench -- console [--changes 100000] [--principals 1000000] [--rounds 5] [--folder FOLDER]`: how long each page of the console takes
 * with a plan of so many changes, in a target with so many users, beside DuckDB alone, which reads the file that the page is
 * about; how large it is; and what the first page of a process costs. What is prepared in `--folder` stays for the next time. Linux only.
 */
export async function consolePages(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      changes: { type: "string", default: "100000" },
      principals: { type: "string", default: "1000000" },
      rounds: { type: "string", default: "5" },
      folder: { type: "string" },
    },
  });
  const [changes, principals, rounds] = [values.changes, values.principals, values.rounds].map(wholeNumber) as [
    number,
    number,
    number,
  ];
  const folder = values.folder ?? (await mkdtemp(join(tmpdir(), "rollcall-bench-")));
  try {
    if (!existsSync(join(folder, "people.csv"))) await prepare(folder, changes, principals);
    const firsts: FirstPage[] = [];
    for (let round = 0; round < rounds; round++) firsts.push(await firstPage(folder));
    const { rows, figures } = await measurePages(folder, rounds);
    console.log(`${machine()}.\n`);
    console.log(
      table(["page", "first", "again", "processor time", "DuckDB alone", "its processor time", "ratio", "bytes"], rows),
    );
    console.log(`The ratio is that of processor times. Bold: beyond ${goals.time} ms, or ${goals.bytes} bytes.`);
    const middle = (pick: (page: FirstPage) => number): number => median(firsts.map(pick));
    const [of, cpu] = [middle(({ milliseconds }) => milliseconds), middle((page) => page.cpu)];
    console.log(
      `The first page of a process: ${of.toFixed(0)} ms (${cpu.toFixed(0)} ms of processor time), ${megabytes(middle(({ bytes }) => bytes))}; ` +
        `a file of the console then: ${middle((page) => page.next).toFixed(1)} ms.`,
    );
    return [
      ...figures,
      { what: "the first page of a process, processor time", value: cpu, unit: "ms", goal: 50 },
      // What the process gave back meanwhile can be more.
      {
        what: "the first page of a process, memory",
        value: Math.max(
          0,
          middle(({ bytes }) => bytes),
        ),
        unit: "bytes",
        goal: 10e6,
      },
    ];
  } finally {
    if (values.folder === undefined) await rm(folder, { recursive: true, force: true });
  }
}

/** A service with `principals` users, and a source that changes some of them and adds others. */
async function prepare(folder: string, changes: number, principals: number): Promise<void> {
  const created = Math.floor(changes / 10);
  const first = principals - (changes - created);
  const file = createWriteStream(join(folder, "people.csv"));
  await pipeline(function* () {
    yield "employee,login,name,mail\n";
    for (let n = first; n < first + changes; n++) {
      const login = `u${String(n).padStart(7, "0")}`;
      // One in a hundred has no login: it is quarantined.
      yield `e${n},${n % 100 === 99 ? "" : login},Ada King ${n},${login}@new.example.com\n`;
    }
  }, file);
  await configure(folder);
  const [list, form] = [join(folder, "list.json"), join(folder, "form")];
  await writeDirectory(list, principals, "actual");
  await writeForm(form, list, { applyChanges: "true", defaultPassword: "a-password-for-new-users" });
  await using daemon = await start(folder, ["--only", "service"]);
  const request = { url: daemon.url, session: daemon.session, form, answer: join(folder, "answer.json") };
  await runApart<Timing>("client.ts", request satisfies ClientRequest);
  await rm(list);
  await rm(form);
}

async function configure(folder: string): Promise<void> {
  const configuration = {
    service: { listen: "127.0.0.1:0", data: "data", administrator },
    targets: { here: "embedded" },
    sources: { company: { connector: "csv", users: { file: "people.csv", id: "employee" } } },
    syncs: {
      all: {
        from: ["company"],
        to: "here",
        approval: "required",
        limits: Object.fromEntries(
          ["deletes", "updates", "creates", "blanked", "quarantined"].map((limit) => [limit, "none"]),
        ),
        users: { name: "entry.login", displayName: "entry.name", mail: "entry.mail" },
        staticGroups: { everybody: { displayName: "Everybody" } },
        defaultGroups: ["everybody"],
      },
    },
  };
  // JSON is YAML.
  await writeFile(join(folder, "rollcall.yaml"), JSON.stringify(configuration));
}

interface Daemon extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly url: string;
  readonly session: string;
}

/** @param more further words of the command */
async function start(folder: string, more: readonly string[] = []): Promise<Daemon> {
  await using log = await open(join(folder, "log"), "a");
  const config = join(folder, "rollcall.yaml");
  const child = fork(rollcall, ["start", ...more, "--config", config], { stdio: ["ignore", log.fd, log.fd, "ipc"] });
  const ended = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
  };
  for (;;) {
    const text = await readFile(join(folder, "data", "service.json"), "utf8").catch(() => "{}");
    const { pid, url, session } = JSON.parse(text) as { pid?: number; url?: string; session?: string };
    if (pid === child.pid && url !== undefined && session !== undefined)
      return { child, url, session, [Symbol.asyncDispose]: stop };
    if (child.exitCode !== null) throw new Error(await readFile(join(folder, "log"), "utf8"));
    await sleep(20);
  }
}

/** What the first page of a process costs: time in milliseconds, memory in bytes. */
interface FirstPage {
  readonly milliseconds: number;
  readonly cpu: number;
  readonly bytes: number;
  /** How long the second takes. */
  readonly next: number;
}

async function firstPage(folder: string): Promise<FirstPage> {
  await using daemon = await start(folder);
  const client = new Client(daemon.url);
  // What every request costs for the first time is not the console's.
  await client.request({ method: "GET", path: "/healthz" }).then(({ body }) => body.dump());
  await sleep(2000);
  const before = await costOf(daemon.child.pid);
  const { milliseconds } = await get(client, "/assets/icon.svg");
  const after = await costOf(daemon.child.pid);
  const { milliseconds: next } = await get(client, "/assets/icon.svg");
  await client.close();
  return { milliseconds, cpu: after.cpu - before.cpu, bytes: after.resident - before.resident, next };
}

/** Processor time in milliseconds, which the kernel counts in hundredths of a second, and resident memory in bytes. */
async function costOf(pid: number | undefined): Promise<{ cpu: number; resident: number }> {
  const [, fields = ""] = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ");
  const [user, system] = fields.split(" ").slice(11, 13).map(Number);
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
  return { cpu: ((user ?? 0) + (system ?? 0)) * 10, resident: Number(kibibytes) * 1024 };
}

interface Answer {
  readonly milliseconds: number;
  readonly status: number;
  readonly text: string;
}

/** From the request to the last byte of the answer. */
async function get(client: Client, path: string, session = ""): Promise<Answer> {
  const started = performance.now();
  const headers = { cookie: `${sessionCookie}=${session}` };
  const { statusCode, body } = await client.request({ method: "GET", path, headers });
  const text = await body.text();
  return { milliseconds: performance.now() - started, status: statusCode, text };
}

/** A row and figures for each page. */
async function measurePages(folder: string, rounds: number): Promise<{ rows: string[][]; figures: Figure[] }> {
  await using daemon = await start(folder);
  const run = await waitingRun(folder, daemon.child);
  const client = new Client(daemon.url);
  const page = async (path: string): Promise<Answer> => {
    const answer = await get(client, path, daemon.session);
    if (answer.status !== 200) throw new Error(`${path} was answered ${answer.status}: ${answer.text}`);
    return answer;
  };
  // The target is listed once; that takes as long as it takes.
  while ((await page("/people")).text.includes("is being listed")) await sleep(500);
  const files = { changes: join(folder, "data", "daemon", "runs", run, "changes.parquet"), principal: "" };
  for await (const file of glob(join(folder, "data", "daemon", "work", "*", "principal.parquet")))
    files.principal = file;
  const rows: string[][] = [];
  const figures: Figure[] = [];
  for (const [name, path, file] of pagesOf(run)) {
    const first = await page(path);
    const again: number[] = [];
    const alone: Scan[] = [];
    let cpu = 0;
    for (let round = 0; round < rounds; round++) {
      const before = await costOf(daemon.child.pid);
      again.push((await page(path)).milliseconds);
      cpu += ((await costOf(daemon.child.pid)).cpu - before.cpu) / rounds;
      alone.push(await scan(files[file], folder));
    }
    const limit = median(alone.map((each) => each.cpu));
    const bytes = Buffer.byteLength(first.text);
    const beside = { by: "DuckDB alone", value: limit };
    figures.push(
      { what: `${name}: time`, value: median(again), unit: "ms", goal: goals.time, cpu },
      { what: `${name}: processor time`, value: cpu, unit: "ms", limit: beside },
      { what: `${name}: size`, value: bytes, unit: "bytes", goal: goals.bytes },
    );
    const marked = (text: string, misses: boolean): string => (misses ? `**${text}**` : text);
    const time = (each: number): string => marked(`${each.toFixed(0)} ms`, each > goals.time);
    rows.push([
      name,
      time(first.milliseconds),
      time(median(again)),
      `${cpu.toFixed(0)} ms`,
      ...[median(alone.map((each) => each.milliseconds)), limit].map((each) => `${each.toFixed(0)} ms`),
      (cpu / limit).toFixed(2),
      marked(bytes.toLocaleString("en"), bytes > goals.bytes),
    ]);
    console.error(rows.at(-1)?.join("  "));
  }
  await client.close();
  return { rows, figures };
}

/** The run that waits for a decision, once there is one. */
async function waitingRun(folder: string, daemon: ChildProcess): Promise<string> {
  const known = async () => {
    const text = await readFile(join(folder, "data", "daemon", "journal.json"), "utf8").catch(() => '{"runs":[]}');
    return (JSON.parse(text) as { runs: readonly Pick<RunRecord, "id" | "state" | "error">[] }).runs;
  };
  if ((await known()).length === 0) daemon.kill("SIGUSR1");
  for (;;) {
    const run = (await known()).find(({ state }) => state !== "running");
    if (run?.state === "pending" || run?.state === "held") return run.id;
    if (run !== undefined) throw new Error(`the run has ended as ${run.state}: ${run.error?.message}`);
    await sleep(200);
  }
}

/** Times in milliseconds. */
interface Scan {
  readonly milliseconds: number;
  readonly cpu: number;
}

/** DuckDB alone reads every value of a file. */
async function scan(file: string, spill: string): Promise<Scan> {
  const database = await openDatabase({ path: ":memory:", memory: 1024 ** 3, spill });
  const connection = await database.connect();
  const started = performance.now();
  const before = process.cpuUsage();
  await connection.rows(`SELECT bit_xor(hash(row)) FROM read_parquet(${literal(file)}) row`);
  const milliseconds = performance.now() - started;
  const { user, system } = process.cpuUsage(before);
  connection.close();
  database.close();
  return { milliseconds, cpu: (user + system) / 1000 };
}
