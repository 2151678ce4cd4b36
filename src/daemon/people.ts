import { setTimeout as delay } from "node:timers/promises";
import type { Configuration } from "#config/configuration.ts";
import { daemonFolder, readStateForPlan } from "#daemon/data-folder.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { leaversOf } from "#daemon/leavers.ts";
import type { SyncLeavers } from "#daemon/leavers.ts";
import { StoredChanges } from "#daemon/stored-changes.ts";
import { declaredBy, openConfiguredTarget, placeOf } from "#daemon/targets.ts";
import { openSync, syncOf } from "#daemon/wiring.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import { redactAll } from "#redact.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import type { RunRecord, Stage } from "#state/record.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import { explain } from "#sync/explain/explain.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import { deletedBy, historyOf, isApplied } from "#sync/explain/history.ts";
import type { Deleted, HistoryEntry } from "#sync/explain/history.ts";
import { Listings } from "#sync/explain/listing.ts";
import type { ListedPrincipal, Listing } from "#sync/explain/listing.ts";

/** Whether somebody is a user or a group. */
export type Kind = ListedPrincipal["kind"];

export interface PeopleOptions {
  readonly current: () => Configuration;
  readonly embedded: Embedded;
  /** @throws {UnavailableError} while the daemon is starting */
  readonly coordinator: () => Pick<LocalCoordinator, "inTurn" | "runs">;
  readonly warn: (message: string) => void;
  /** How long an explanation waits for what is not known yet, in milliseconds. Default: 1500. */
  readonly patience?: number | undefined;
}

/** Why a sync could not explain. */
export interface Unexplained {
  readonly sync: string;
  readonly error: ErrorDocument;
}

/** A sync that is being asked. */
export interface Asking {
  readonly sync: string;
  readonly sources: readonly string[];
  /** Absent while it waits for its turn. */
  readonly stage?: Stage | undefined;
}

/** What is known of an explanation by now. */
export interface Explanations {
  /** When the syncs were asked, ISO 8601: with it, further answers are those of the same explanation. */
  readonly since: string;
  /** Of each sync. */
  readonly answers: readonly (Explanation | Unexplained | Asking)[];
}

/** An explanation that somebody looks at. */
class AskedExplanation {
  readonly since = new Date().toISOString();
  readonly stop = new AbortController();
  readonly answers: (Explanation | Unexplained | Asking)[];
  readonly ended: Promise<unknown>;
  isWhole = false;
  timer: NodeJS.Timeout | undefined;

  /** @param ask reports the stages of a sync, and does not fail */
  constructor(
    syncs: readonly Asking[],
    ask: (sync: string, signal: AbortSignal, tell: (stage: Stage) => void) => Promise<Explanation | Unexplained>,
  ) {
    this.answers = [...syncs];
    const asked = syncs.map(async (asking, index) => {
      this.answers[index] = await ask(asking.sync, this.stop.signal, (stage) => {
        this.answers[index] = { ...asking, stage };
      });
    });
    this.ended = Promise.all(asked).then(() => (this.isWhole = true));
  }
}

/** How long an explanation that nobody asks for goes on, in milliseconds. */
const unasked = 15_000;

/** What is known of somebody's past: as far as plans are stored. */
export interface KnownHistory {
  /** Newest first. */
  readonly entries: readonly HistoryEntry[];
  /** There are earlier ones. */
  readonly more: boolean;
  /** How many of the runs have stored changes. */
  readonly stored: number;
  readonly runs: number;
}

/** How many entries of a history are shown. */
const most = 50;

/**
 * How many syncs are explained at the same time: few, since each has a workbench with a memory limit of its own. A target that
 * does not answer leaves room for others.
 */
export const atOnce = { all: 3, ofTarget: 2 } as const;

/** The users and groups of targets, for the console: what `explain` and `history` read. */
export class People {
  readonly #options: PeopleOptions;
  readonly #stop = new AbortController();
  readonly #explaining = createQueue(atOnce.all);
  readonly #ofTarget = createKeyedQueue(atOnce.ofTarget);
  readonly #asked = new Map<string, AskedExplanation>();
  #listings: Listings | undefined;

  constructor(options: PeopleOptions) {
    this.#options = options;
  }

  /** The targets that syncs write to. */
  targets(): readonly string[] {
    const configuration = this.#options.current();
    return Object.keys(configuration.targets).filter((target) => syncsTo(configuration, target).length > 0);
  }

  /** Whether a run to a target is under way: its list is read after that. */
  isBusy(target: string): boolean {
    return this.#runsTo(target).some(({ state }) => state === "running");
  }

  /**
   * Reads the list of a target.
   * @param instead do not read the list of that moment, ISO 8601
   * @param patience how long a list that is being made is waited for, in milliseconds
   * @returns undefined while the target is being listed: ask again
   */
  list<Result>(
    target: string,
    instead: string | undefined,
    read: (listing: Listing) => Promise<Result>,
    patience?: number,
  ): Promise<Result | undefined> {
    const { current, embedded, coordinator } = this.#options;
    this.#listings ??= new Listings({
      folder: daemonFolder(current()),
      state: () => readStateForPlan(current()),
      memory: current().memory,
      open: async (name) => {
        const configuration = current();
        const opened = await openConfiguredTarget(configuration, name, embedded);
        const declared = declaredBy(configuration, name);
        return { target: opened, declared, place: placeOf(configuration, name), syncs: syncsTo(configuration, name) };
      },
      inTurn: (place, work, signal) => this.#inTurn(place, work, signal),
    });
    const applied = coordinator()
      .runs()
      .find((run) => run.target === target && run.sentAt !== undefined);
    const since = applied === undefined ? 0 : Date.parse(applied.endedAt ?? applied.sentAt ?? applied.startedAt);
    return this.#listings.read(target, { since, instead, patience }, read);
  }

  /** Leavers: people gone from the sources, as of the last run of each sync. */
  leavers(): Promise<readonly SyncLeavers[]> {
    const configuration = this.#options.current();
    return leaversOf(configuration, Object.keys(configuration.syncs), {
      signal: this.#stop.signal,
      inTurn: (place, work, signal) => this.#inTurn(place, work, signal),
    });
  }

  /**
   * What each sync to a target would do with everything of a name, as far as it is known soon: ask again for the
   * rest. Reads the sources, until nobody has asked for 15 seconds.
   * @param since of the explanation that is asked for again; absent: a new one, unless somebody waits for one already
   * @returns undefined when there is none of that moment any more
   */
  async explain(target: string, wanted: string, since?: string): Promise<Explanations | undefined> {
    const key = JSON.stringify([target, wanted]);
    let asked = this.#asked.get(key);
    if (since === undefined) {
      if (asked === undefined || asked.isWhole) asked = this.#ask(target, wanted);
    } else if (asked?.since !== since) return undefined;
    const { stop, ended, answers } = asked;
    clearTimeout(this.#asked.get(key)?.timer);
    this.#asked.set(key, asked);
    await Promise.race([ended, delay(this.#options.patience ?? 1500, undefined, { ref: false })]);
    clearTimeout(asked.timer);
    asked.timer = setTimeout(() => {
      if (this.#asked.get(key) === asked) this.#asked.delete(key);
      stop.abort(new UnavailableError("nobody waits for it any more"));
    }, unasked).unref();
    return { since: asked.since, answers: [...answers] };
  }

  #ask(target: string, wanted: string): AskedExplanation {
    const configuration = this.#options.current();
    const syncs = syncsTo(configuration, target).map((sync) => ({ sync, sources: syncOf(configuration, sync).from }));
    return new AskedExplanation(syncs, async (sync, left, tell) => {
      const signal = AbortSignal.any([this.#stop.signal, left]);
      const explaining = () =>
        this.#explaining(() => this.#explainOne(configuration, sync, wanted, { signal, tell }), signal);
      const found = await this.#ofTarget(target, explaining, signal).catch((error: unknown) => ({
        sync,
        error: errorDocument(error),
      }));
      return redactAll(found);
    });
  }

  history(target: string, kind: Kind, name: string): Promise<KnownHistory> {
    const runs = this.#runsTo(target);
    return this.#readStored(runs, async ({ connection }, files) => {
      const entries: HistoryEntry[] = [];
      for await (const entry of historyOf(connection, runs, files, `${kind}:${name}`)) {
        const changes = entry.changes.filter((change) => change.name === name);
        if (changes.length + entry.notes.length > 0) entries.push({ ...entry, changes });
        if (entries.length > most) break;
      }
      const more = entries.length > most;
      return { entries: entries.slice(0, most), more, stored: files.length, runs: runs.length };
    });
  }

  /** Deleted users and groups whose name, display name or mail held a text, as far back as plans are stored. The latest first. */
  deleted(target: string, wanted: { readonly text: string; readonly most: number }): Promise<Deleted[]> {
    const runs = this.#runsTo(target).filter((run) => isApplied(run) !== false);
    return this.#readStored(runs, ({ connection }, files) =>
      deletedBy(connection, runs, files, declaredBy(this.#options.current(), target), wanted),
    );
  }

  #runsTo(target: string): RunRecord[] {
    return this.#options
      .coordinator()
      .runs()
      .filter((run) => run.target === target);
  }

  async #readStored<Result>(
    runs: readonly RunRecord[],
    read: (stored: StoredChanges, files: readonly string[]) => Promise<Result>,
  ): Promise<Result> {
    const configuration = this.#options.current();
    return StoredChanges.read({ configuration }, async (stored) => read(stored, await stored.files(runs)));
  }

  /** Stops what is being read. */
  async close(): Promise<void> {
    this.#stop.abort(new UnavailableError("the daemon is stopping"));
    await this.#listings?.close();
    await this.#ofTarget.idle();
  }

  async #explainOne(
    configuration: Configuration,
    name: string,
    wanted: string,
    { signal, tell }: { readonly signal: AbortSignal; readonly tell: (stage: Stage) => void },
  ): Promise<Explanation> {
    const sync = await openSync(configuration, name, this.#options.embedded);
    try {
      await using state = await readStateForPlan(configuration);
      const options = {
        state,
        memory: configuration.memory,
        interruption: { stop: signal, abandon: signal },
        approval: syncOf(configuration, name).approval,
        inTurn: <Result>(work: () => Promise<Result>) => this.#inTurn(sync.place, work, signal),
        progress: tell,
        warn: this.#options.warn,
      };
      return await explain(sync, wanted, options);
    } finally {
      await sync.target.close();
    }
  }

  /** Copies of what several daemons share can be read at any time. */
  #inTurn<Result>(place: string, work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    const { current, coordinator } = this.#options;
    return current().shared === undefined ? coordinator().inTurn(place, work, signal) : work();
  }
}

/** The syncs that write to a target. */
function syncsTo({ syncs }: Configuration, target: string): string[] {
  return Object.keys(syncs).filter((name) => syncs[name]?.to === target);
}
