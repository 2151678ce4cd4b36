import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Command } from "commander";
import { common, help } from "#cli/flags.ts";
import type { CommonOptions } from "#cli/flags.ts";
import type { Runner } from "#cli/runner.ts";
import { holdFiles } from "#client/sql.ts";
import { command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import { findDaemon, holdRuns, releaseRuns } from "#control/client.ts";
import type { FoundDaemon } from "#control/client.ts";
import { interruptMessages, localActor } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { dataFolderInUse, isLocked } from "#daemon/data-folder.ts";
import { runningService } from "#daemon/embedded.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { embeddedOptions } from "#daemon/targets.ts";
import { identifier, literal, openDatabase } from "#duckdb/database.ts";
import { InputError, RollcallError, UnavailableError } from "#errors.ts";
import { forbidden, unwritable } from "#files/disk.ts";
import { isAlive, syncFolder } from "#files/durable.ts";
import { breakWords } from "#state/audit/words.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import { chainIn } from "#state/folder/chain.ts";
import { readJournal } from "#state/folder/journal.ts";
import { formatNumber, pluralize } from "#text.ts";
import { format, manifestName, pack } from "./archive.ts";
import type { Manifest } from "./archive.ts";
import { allFiles, copyOne, digestOf, filesOf } from "./files.ts";

export function declare(declared: Command, runner: Runner): void {
  help(common(declared).argument("<file>", "the file to write; must not exist yet"), {
    examples: ["rollcall backup rollcall-backup.tar.zst"],
    exits: { 1: "there is no backup" },
  }).action((file: string, options: CommonOptions) =>
    runner.runWithContext(
      options,
      (context) => backup(context, file, runner.composition.version),
      interruptMessages.backup,
    ),
  );
}

/**
 * `rollcall backup FILE`: copies everything in the data folder that is worth keeping into one file, whether or not service and daemon
 * run, and opens what it has copied. With `--json`: `{"file", "bytes", "files", "users", "runs", "warnings"}`.
 * @throws {InputError} when the file exists, or the folder cannot be read; {UnavailableError} when another command is at work
 */
export async function backup(context: Context, file: string, version: string): Promise<ExitCode> {
  const { configuration, output } = context;
  const target = resolve(file);
  if (file === "-")
    throw new InputError("a backup is written to a file, not to standard output: name one, then send it elsewhere");
  if (existsSync(target)) throw new InputError(`${file} exists already: choose another name`);
  await removeAbandoned(target);
  const beside = `${target}.${process.pid}.partial`;
  const stage = `${beside}.d`;
  try {
    await mkdir(stage, { mode: 0o700 }).catch((error: unknown) => {
      throw unwritable(`the folder ${dirname(target)}`, error);
    });
    await copyHeld(context, stage);
    output.progress("opening the copy …");
    const checked = await check(configuration, stage);
    const files = await writeManifest(configuration, stage, version);
    output.progress(`writing ${file} …`);
    await pack(stage, beside, context.interruption.stop);
    const { size: bytes } = await stat(beside);
    await rename(beside, target);
    await syncFolder(dirname(target));
    output.progress();
    const { users, runs, warnings } = checked;
    for (const warning of warnings) output.say(warning);
    await output.write(
      output.json
        ? `${JSON.stringify({ file: target, bytes, files, users, runs, warnings })}\n`
        : `${file}: ${pluralize(files, "file")}, ${pluralize(users, "user")}, ${pluralize(runs, "run")}, ${formatNumber(Math.ceil(bytes / 1024))} KiB\n`,
    );
    return exitCodes.done;
  } finally {
    output.progress();
    for (const left of [beside, stage]) await rm(left, { recursive: true, force: true });
  }
}

/** What commands that were killed have left beside a file. */
async function removeAbandoned(target: string): Promise<void> {
  const folder = dirname(target);
  for (const name of await readdir(folder).catch(() => [])) {
    const pid = name.startsWith(`${basename(target)}.`) ? /\.(\d+)\.partial(?:\.d)?$/.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isAlive(Number(pid))) await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** How often what runs is asked to hold still, in milliseconds; while a run is under way, more often. */
const pauses = { held: 5_000, waiting: 250 };

/** Copies the files while no run is under way: what the daemon knows and what the service has fit together. */
async function copyHeld(context: Context, stage: string): Promise<void> {
  const { configuration, embedded, interruption, output } = context;
  const { data, service } = configuration;
  const signal = interruption.stop;
  const daemon = configuration.shared === undefined ? await findDaemon(data, localActor().name, signal) : undefined;
  const hosted =
    service?.engine === "duckdb" && (await runningService(data)) !== undefined
      ? await embeddedOptions("embedded", embedded)
      : undefined;
  if (daemon === undefined && configuration.shared === undefined && isLocked(configuration))
    throw await dataFolderInUse(
      data,
      undefined,
      undefined,
      "a command is at work; wait until it has ended, then try again",
    );
  const copied = new AbortController();
  const renew = async (): Promise<boolean> => {
    if (hosted !== undefined) await holdFiles(hosted, "hold", signal);
    return daemon === undefined || (await waitsFor(daemon, signal, output.progress)) === undefined;
  };
  try {
    while (!(await renew())) await delay(pauses.waiting, undefined, { signal });
    const copying = AbortSignal.any([signal, copied.signal]);
    await Promise.race([
      copyAll(configuration, { stage, progress: output.progress, signal: copying }),
      keepHolding(renew, copying),
    ]);
    signal.throwIfAborted();
  } finally {
    copied.abort();
    // It lets go by itself, a little later.
    if (daemon !== undefined) await releaseRuns(daemon, signal).catch(() => undefined);
    if (hosted !== undefined) await holdFiles(hosted, "release", signal).catch(() => undefined);
  }
  const isOther = daemon === undefined && configuration.shared === undefined && isLocked(configuration);
  if (isOther) throw new UnavailableError("a daemon or a command began while the files were copied; try again");
}

async function waitsFor(
  daemon: FoundDaemon,
  signal: AbortSignal,
  progress: (line: string) => void,
): Promise<readonly string[] | undefined> {
  const running = await holdRuns(daemon, signal);
  if (running !== undefined)
    progress(`waiting for ${running.length === 0 ? "the runs under way" : running.join(", ")} …`);
  return running;
}

/** @returns never, but until the signal is aborted; @throws when what runs did not hold still, and the copy is worth nothing */
async function keepHolding(renew: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  for (;;) {
    await delay(pauses.held, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    if (!(await renew()) && !signal.aborted)
      throw new UnavailableError("the daemon was restarted while its files were copied; try again");
  }
}

async function copyAll(
  { data, shared }: Configuration,
  {
    stage,
    progress,
    signal,
  }: { readonly stage: string; readonly progress: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const all = await filesOf(data);
  const files = shared === undefined ? all : all.filter((path) => !path.startsWith("daemon/"));
  if (files.length === 0)
    throw new InputError(`there is nothing to back up in ${data}: \`${command("start")}\` has not run yet`);
  for (const path of files) {
    progress(`copying ${path} …`);
    await copyOne(join(data, path), join(stage, path), signal).catch((error: unknown) => {
      signal.throwIfAborted();
      if (error instanceof RollcallError) throw error;
      throw forbidden(join(data, path), error) ?? unwritable(`the copy of ${path}`, error);
    });
  }
}

interface Checked {
  readonly users: number;
  readonly runs: number;
  /** What was wrong before the backup and is in it as it was. */
  readonly warnings: readonly string[];
}

/** Opens every database of the copy, which takes its log into it, and reads journal and audit log. */
async function check({ memory }: Configuration, stage: string): Promise<Checked> {
  const folder = join(stage, "service", "databases");
  for (const name of (await readdir(folder).catch(() => [])).filter((each) => each.endsWith(".duckdb")))
    await openCopy(":memory:", { stage, memory }, async (connection) => {
      const called = identifier(decodeURIComponent(name.slice(0, -".duckdb".length)));
      await connection.run(`ATTACH ${literal(join(folder, name))} AS ${called}`);
      await connection.run(`CHECKPOINT ${called}`);
      await connection.run(`DETACH ${called}`);
    });
  const own = join(stage, "service", "service.duckdb");
  let users = 0;
  if (existsSync(own))
    await openCopy(own, { stage, memory }, async (connection) => {
      await connection.run("CHECKPOINT");
      const [found] = await connection.rows<{ users: number }>(
        "SELECT coalesce(sum(estimated_size), 0)::DOUBLE AS users FROM duckdb_tables() WHERE schema_name = 'directory' AND table_name = 'users'",
      );
      users = found?.users ?? 0;
    });
  const daemon = join(stage, "daemon");
  for (const name of (await readdir(join(daemon, "ledgers")).catch(() => [])).filter((each) =>
    each.endsWith(".duckdb"),
  ))
    await openCopy(join(daemon, "ledgers", name), { stage, memory }, (connection) => connection.run("CHECKPOINT"));
  if (!existsSync(daemon)) return { users, runs: 0, warnings: [] };
  const { runs } = await readJournal(daemon);
  const chain = chainIn(daemon);
  const expected = await chain.head();
  const { broken } = await verifyAudit(chain, { ...(expected && { expected }) });
  return {
    users,
    runs: runs.length,
    warnings: broken === undefined ? [] : [`${breakWords(broken)}. The backup has the same damage`],
  };
}

async function openCopy(
  path: string,
  { stage, memory }: { readonly stage: string; readonly memory: number },
  work: Parameters<Awaited<ReturnType<typeof openDatabase>>["use"]>[0],
): Promise<void> {
  const spill = join(stage, ".spill");
  const database = await openDatabase({ path, memory, spill });
  try {
    await database.use(work);
  } finally {
    database.close();
    await rm(spill, { recursive: true, force: true });
  }
}

/** @returns how many files the backup has */
async function writeManifest({ service, shared }: Configuration, stage: string, version: string): Promise<number> {
  const files: Manifest["files"] = {};
  for (const path of await allFiles(stage)) files[path] = await digestOf(join(stage, path));
  const document: Manifest = {
    format,
    rollcall: version,
    createdAt: new Date().toISOString(),
    engine: service === undefined ? undefined : service.engine === "duckdb" ? "duckdb" : "postgres",
    state: shared === undefined ? "folder" : "postgres",
    files,
  };
  await writeFile(join(stage, manifestName), `${JSON.stringify(document, undefined, 2)}\n`, { mode: 0o600 });
  return Object.keys(files).length;
}
