import { existsSync } from "node:fs";
import { chown, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { common, help } from "#cli/flags.ts";
import type { CommonOptions } from "#cli/flags.ts";
import type { Runner } from "#cli/runner.ts";
import { command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import { interruptMessages } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { isLocked, restoreFolder } from "#daemon/data-folder.ts";
import { runningService } from "#daemon/embedded.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { InputError } from "#errors.ts";
import { codeOf, forbidden, isLink, unreadable, unwritable } from "#files/disk.ts";
import { isAlive, syncFolder } from "#files/durable.ts";
import { pluralize } from "#text.ts";
import { manifestName, unpack } from "./archive.ts";
import type { Manifest } from "./archive.ts";

export function declare(declared: Command, runner: Runner): void {
  help(common(declared).argument("<file>", "what `rollcall backup` has written"), {
    examples: ["rollcall restore rollcall-backup.tar.zst"],
    exits: { 1: "nothing was restored" },
  }).action((file: string, options: CommonOptions) =>
    runner.runWithContext(options, (context) => restore(context, file), interruptMessages.restore),
  );
}

/**
 * `rollcall restore FILE`: unpacks a backup into the data folder of the configuration, which must have no data, and nothing may run
 * on it. All of it is there afterwards, or nothing. With `--json`: `{"restored", "files", "createdAt", "rollcall"}`.
 * @throws {InputError} when the folder has data, or the file is no whole backup for this configuration
 */
export async function restore({ configuration, interruption, output }: Context, file: string): Promise<ExitCode> {
  const { data } = configuration;
  await removeInterrupted(data);
  await refuseUsed(configuration);
  const unpacked = join(existsSync(data) ? data : dirname(resolve(data)), `.restore-${process.pid}`);
  let made: Manifest;
  try {
    await mkdir(unpacked, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      throw unwritable(`the folder ${dirname(unpacked)}`, error);
    });
    output.progress(`unpacking ${file} …`);
    made = await unpack(resolve(file), unpacked);
    refuseOther(configuration, made);
    await rm(join(unpacked, manifestName));
    await giveTo(unpacked, existsSync(data) ? data : dirname(resolve(data)));
    interruption.stop.throwIfAborted();
    await refuseUsed(configuration);
    await putInPlace(unpacked, data);
  } finally {
    output.progress();
    // Files whose unpacking had begun may still appear after it has failed.
    await rm(unpacked, { recursive: true, force: true, maxRetries: 10 });
  }
  const files = Object.keys(made.files).length;
  const { createdAt, rollcall } = made;
  await output.write(
    output.json
      ? `${JSON.stringify({ restored: data, files, createdAt, rollcall })}\n`
      : `restored ${data} as it was at ${createdAt}: ${pluralize(files, "file")}\n`,
  );
  output.say(
    `A target elsewhere has not gone back in time. Before you start Rollcall, see what it would change: \`${command("plan")}\``,
  );
  return exitCodes.done;
}

/** What a data folder has once Rollcall has run. */
const ofData = ["service", "daemon"];

/** What a restore that was killed has left: nothing has been started on it since, so all of it is from the backup. */
async function removeInterrupted(data: string): Promise<void> {
  for (const folder of [data, dirname(resolve(data))])
    for (const name of await readdir(folder).catch(() => [])) {
      const pid = restoreFolder.exec(name)?.[1];
      if (pid === undefined || isAlive(Number(pid))) continue;
      const left = await readdir(join(folder, name));
      const isPlacing = folder === data && !left.includes(manifestName) && left.length < ofData.length;
      if (isPlacing) for (const each of ofData) await rm(join(data, each), { recursive: true, force: true });
      await rm(join(folder, name), { recursive: true, force: true });
    }
}

async function refuseUsed(configuration: Configuration): Promise<void> {
  const { data } = configuration;
  if (isLocked(configuration) || (await runningService(data)) !== undefined)
    throw new InputError(`Rollcall is running on the data folder ${data}: stop it, then restore`);
  const names = await readdir(data).catch((error: unknown): string[] => {
    if (codeOf(error) === "ENOENT" && !isLink(data)) return [];
    if (codeOf(error) === "ENOENT")
      throw new InputError(
        `the data folder ${data} is a link to a folder that does not exist: make that folder, or remove the link`,
        { cause: error },
      );
    throw forbidden(`the data folder ${data}`, error) ?? unreadable(`the data folder ${data}`, data, error);
  });
  const there = ofData.filter((name) => names.includes(name));
  if (there.length > 0)
    throw new InputError(
      `the data folder ${data} has data already (${there.join(", ")}), and a restore replaces none: move it away, then restore: ` +
        `mkdir ${data}.before && mv ${there.map((name) => join(data, name)).join(" ")} ${data}.before/`,
    );
}

/** @throws {InputError} when the configuration keeps elsewhere what the backup has */
function refuseOther({ file, service, shared }: Configuration, { engine, state }: Manifest): void {
  const now = service === undefined ? undefined : service.engine === "duckdb" ? "duckdb" : "postgres";
  if (engine !== now)
    throw new InputError(
      `the backup is of ${engineWords(engine)}, and ${file} has ${engineWords(now)}: restore with the configuration that it was made with`,
    );
  const isShared = shared !== undefined;
  if (isShared !== (state === "postgres"))
    throw new InputError(
      `the daemon's state was in ${state === "postgres" ? "PostgreSQL" : "the data folder"} then, and \`daemon.state\` says otherwise now: restore with the configuration that it was made with`,
    );
}

function engineWords(engine: Manifest["engine"]): string {
  if (engine === undefined) return "a daemon alone";
  return engine === "duckdb" ? "a service with the engine duckdb" : "a service with the engine postgres";
}

/** Root restores for the account of the service. */
async function giveTo(unpacked: string, owned: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(owned);
  await chown(unpacked, uid, gid);
  for (const path of await readdir(unpacked, { recursive: true })) await chown(join(unpacked, path), uid, gid);
}

/** Nothing is started on the data folder between the two moves: `refuseUnusable` (daemon/data-folder.ts) finds `unpacked` in it. */
async function putInPlace(unpacked: string, data: string): Promise<void> {
  if (!existsSync(data)) await rename(unpacked, data);
  else
    for (const name of ofData) {
      if (existsSync(join(unpacked, name))) await rename(join(unpacked, name), join(data, name));
    }
  await syncFolder(dirname(resolve(data)));
  await syncFolder(data);
}
