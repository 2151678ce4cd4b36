import type { Configuration } from "#config/configuration.ts";
import { daemonFolder, explainState, planState, readableState } from "#daemon/data-folder.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { filesOf, openStoredChanges } from "#daemon/stored-changes.ts";
import { openConfiguredTarget, openSync, placeOf, syncOf } from "#daemon/wiring.ts";
import type { People } from "#console/context.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { redactAll } from "#redact.ts";
import { createQueue } from "#queue.ts";
import type { LocalCoordinator } from "#sync/coordinator/open.ts";
import { explain } from "#sync/explain/explain.ts";
import { historyOf } from "#sync/history.ts";
import type { HistoryEntry } from "#sync/history.ts";
import { createListings } from "#sync/listing.ts";
import type { Listings } from "#sync/listing.ts";

/** What the console knows of users and groups. */
export interface DaemonPeople extends People {
  /** Stops what is being read. */
  close(): Promise<void>;
}

export interface DaemonPeopleOptions {
  readonly current: () => Configuration;
  readonly embedded: Pick<Embedded, "access" | "close">;
  /** @throws {UnavailableError} while the daemon is starting */
  readonly coordinator: () => Pick<LocalCoordinator, "inTurn" | "runs">;
  readonly warn: (message: string) => void;
}

/** How many entries of a history are shown. */
const most = 50;

/** Reads for the console what the commands `explain` and `history` do, one explanation at a time. */
export function createPeople({ current, embedded, coordinator, warn }: DaemonPeopleOptions): DaemonPeople {
  const stop = new AbortController();
  const explaining = createQueue();
  let listings: Listings | undefined;
  /** Copies of what several daemons share can be read at any time. */
  const inTurn: LocalCoordinator["inTurn"] = (place, work, signal) =>
    current().shared === undefined ? coordinator().inTurn(place, work, signal) : work();
  const explainOne = async (configuration: Configuration, name: string, wanted: string, signal: AbortSignal) => {
    const sync = await openSync(configuration, name, embedded);
    try {
      const options = {
        folder: await readableState(configuration, explainState),
        memory: configuration.memory,
        interruption: { stop: signal, abandon: signal },
        approval: syncOf(configuration, name).approval,
        warn,
      };
      return await inTurn(sync.place, () => explain(sync, wanted, options), signal);
    } finally {
      await sync.target.close();
    }
  };

  return {
    targets: () => Object.keys(current().targets).filter((target) => syncsTo(current(), target).length > 0),
    list: (target, instead, read) => {
      const { memory } = current();
      listings ??= createListings({
        folder: daemonFolder(current()),
        state: () => readableState(current(), planState),
        memory,
        open: async (name) => {
          const configuration = current();
          const opened = await openConfiguredTarget(configuration, name, embedded);
          return { target: opened, place: placeOf(configuration, name), syncs: syncsTo(configuration, name) };
        },
        inTurn,
      });
      const applied = coordinator()
        .runs()
        .find((run) => run.target === target && run.sentAt !== undefined);
      const since = applied === undefined ? 0 : Date.parse(applied.endedAt ?? applied.sentAt ?? applied.startedAt);
      return listings.read(target, { since, instead }, read);
    },
    explain: (target, wanted, left) => {
      const signal = AbortSignal.any([stop.signal, left]);
      return explaining(async () => {
        const configuration = current();
        const found: Awaited<ReturnType<People["explain"]>>[number][] = [];
        for (const sync of syncsTo(configuration, target)) {
          const each = await explainOne(configuration, sync, wanted, signal).catch((error: unknown) => {
            signal.throwIfAborted();
            return { sync, error: errorDocument(error) };
          });
          found.push(redactAll(each));
        }
        return found;
      }, signal);
    },
    history: async (target, kind, name) => {
      const runs = coordinator()
        .runs()
        .filter((run) => run.target === target);
      const stored = await openStoredChanges({ configuration: current() });
      try {
        const files = await filesOf(runs, stored);
        const entries: HistoryEntry[] = [];
        for await (const entry of historyOf(stored.connection, runs, files, name)) {
          const changes = entry.changes.filter((change) => change.kind === kind && change.name === name);
          if (changes.length + entry.notes.length > 0) entries.push({ ...entry, changes });
          if (entries.length > most) break;
        }
        return {
          entries: entries.slice(0, most),
          more: entries.length > most,
          stored: files.length,
          runs: runs.length,
        };
      } catch (error) {
        throw stored.problem(error);
      } finally {
        await stored.close();
      }
    },
    close: async () => {
      stop.abort(new UnavailableError("the daemon is stopping"));
      await listings?.close();
      await explaining.idle();
    },
  };
}

/** The syncs that write to a target. */
function syncsTo({ syncs }: Configuration, target: string): string[] {
  return Object.keys(syncs).filter((name) => syncs[name]?.to === target);
}
