import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { formatName } from "#text.ts";
import type { FoundDaemon } from "#control/client.ts";
import { loginFor } from "#control/logins.ts";
import { readDaemonPresence } from "#control/presence.ts";
import { localActor } from "#daemon/context.ts";
import type { ReadingContext } from "#daemon/context.ts";
import { readState } from "#daemon/data-folder.ts";
import type { KnownJournal } from "#state/store.ts";

/**
 * The runs of the journal, newest first; one whose process was killed is shown as such. Only reads: needs no lock, and
 * leaves it to the next run to find out more, and to write it down.
 */
export async function knownRuns(context: Reading): Promise<readonly RunRecord[]> {
  return (await knownJournal(context)).runs;
}

/** The same, with the states of the syncs. */
export async function knownJournal(context: Reading): Promise<KnownJournal> {
  const daemon = await daemonElsewhere(context);
  if (daemon !== undefined) {
    const { configuration, interruption } = context;
    const options = { data: configuration.data, account: localActor().name, signal: interruption.stop };
    const { connectCoordinator } = await import("#control/client.ts");
    const coordinator = await connectCoordinator(daemon, options);
    coordinator.close();
    return { runs: coordinator.runs(), syncs: {} };
  }
  await using state = await readState(context.configuration);
  const { runs, syncs } = await state.journal();
  return { runs: runs.toSorted((a, b) => (a.id < b.id ? 1 : -1)), syncs };
}

type Reading = Pick<ReadingContext, "configuration" | "interruption">;

/** The daemon that somebody has logged in to whose data folder is on another machine, or another account's. */
export async function daemonElsewhere({ configuration, interruption }: Reading): Promise<FoundDaemon | undefined> {
  const { data, shared } = configuration;
  if (shared !== undefined || (await loginFor(data, undefined)) === undefined) return undefined;
  if ((await readDaemonPresence(data)) !== undefined) return undefined;
  const { findDaemon } = await import("#control/client.ts");
  return findDaemon(data, localActor().name, interruption.stop);
}

/**
 * @param page where the console shows what is asked for
 * @throws {InputError} when it is stored in a data folder that only the daemon can read
 */
export async function refuseElsewhere(context: Reading, page: string): Promise<void> {
  const daemon = await daemonElsewhere(context);
  if (daemon === undefined) return;
  const { url } = daemon.connection.presence;
  throw new InputError(
    `this account cannot read the data folder ${context.configuration.data}, where changes are stored; look at ${url}${page}`,
  );
}

/**
 * Finds a run by the beginning of its id, or of the part after the time, if that is unique; or by `latest`,
 * `latest:SYNC` or `pending`.
 * @param runs newest first
 * @throws {InputError} when none or several match
 */
export function chosenRun(runs: readonly RunRecord[], wanted: string): RunRecord {
  const found = candidates(runs, wanted);
  const [run, another] = found;
  if (run === undefined) throw new InputError(`${missing(runs, wanted)}: \`${command("runs")}\` lists the known runs`);
  if (another === undefined) return run;
  const names = found.slice(0, 5).map(({ id, sync }) => `${id} (${sync})`);
  const rest = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  throw new InputError(`${formatName(wanted)} matches several runs: ${names.join(", ")}${rest}`);
}

function candidates(runs: readonly RunRecord[], wanted: string): readonly RunRecord[] {
  if (wanted === "pending") return runs.filter(({ state }) => state === "pending");
  if (wanted === "latest") return runs.slice(0, 1);
  if (wanted.startsWith("latest:")) return runs.filter(({ sync }) => `latest:${sync}` === wanted).slice(0, 1);
  if (wanted === "") return [];
  const exact = runs.filter(({ id }) => id === wanted);
  if (exact.length > 0) return exact;
  const byStart = runs.filter(({ id }) => id.startsWith(wanted));
  return byStart.length > 0 ? byStart : runs.filter(({ id }) => (id.split("-", 3)[2] ?? "").startsWith(wanted));
}

function missing(runs: readonly RunRecord[], wanted: string): string {
  if (runs.length === 0) return "there has been no run yet";
  if (wanted === "pending") {
    const held = runs.find((run) => run.state === "held" && isOpen(run));
    return held === undefined
      ? "no run waits for approval"
      : `no run waits for approval; ${held.id} is held, and can be approved by its id`;
  }
  if (wanted.startsWith("latest:")) return `there is no run of a sync called ${formatName(wanted.slice(7))}`;
  return `there is no run ${formatName(wanted)}`;
}
