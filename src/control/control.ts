import type { Logger } from "pino";
import { UnavailableError } from "#errors.ts";
import type { Change } from "#plan/change.ts";
import type { Filter } from "#plan/stored.ts";
import type { ReadAudit } from "#state/audit/list.ts";
import { eventDocument, runDocument } from "#state/record.ts";
import type { Actor, RunDocument, RunRecord, Stage } from "#state/record.ts";
import type { Begun, Coordinator } from "#sync/coordinator/coordinator.ts";
import type { Proofs } from "./access.ts";
import type { Accounts } from "./accounts.ts";
import type { InboxAccess } from "./inboxes.ts";
import type { Sessions } from "./sessions.ts";
import { EventStreams } from "./events.ts";

export interface ControlOptions extends Proofs {
  readonly sessions: Sessions;
  readonly accounts: Accounts;
  readonly inboxes: InboxAccess;
  readonly version: string;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly log: Logger;
}

/** What the API needs of the daemon. */
export interface Daemon {
  readonly coordinator: Coordinator;
  /** The configuration in force. Two processes have the same one if their digests are equal. */
  readonly configuration: () => { readonly file: string; readonly digest: string };
  /** The changes a run planned, as far as they match the filter. */
  readonly changes: (run: RunRecord, filter: Filter) => AsyncIterable<Change>;
  readonly audit: ReadAudit;
  /** Reloads the configuration, all of it or nothing. @throws {InputError} when it is not valid */
  readonly reload: (by: Actor) => Promise<unknown>;
  /** Keeps runs from beginning. */
  readonly hold: { renew(): boolean; release(): void };
}

/** What `GET /runs/:id/end` answers with 202. */
export interface RunUnderWay extends RunDocument {
  /** The stage that it is in, and how many records were read in it; absent: in none yet. */
  readonly progress?: { readonly stage: Stage; readonly records?: number | undefined } | undefined;
}

/** How many outcomes are remembered. */
const capacity = 200;

/** What the routes of the daemon's API share. They answer 503 until a daemon is attached. */
export class Control {
  readonly options: ControlOptions;
  readonly events = new EventStreams();
  /**
   * Outcomes of the runs that were started over the API. The journal is no substitute: a run may be recorded as ended
   * before everything that belongs to it is done.
   */
  readonly #outcomes = new Map<string, RunRecord | "under way">();
  /** Of the runs under way. */
  readonly #progress = new Map<string, RunUnderWay["progress"]>();
  #daemon: Daemon | undefined;
  #isStopping = false;

  constructor(options: ControlOptions) {
    this.options = options;
  }

  attach(daemon: Daemon): void {
    this.#daemon = daemon;
    daemon.coordinator.subscribe((event) => {
      if (event.type === "stage") this.#progress.set(event.id, { stage: event.stage, records: event.records });
      if (event.type === "run" && event.run.state !== "running") this.#progress.delete(event.run.id);
      this.events.publish(event.type, eventDocument(event));
    });
  }

  /** From now on, refuses requests that start or decide anything. Runs under way can still be followed. */
  beginStopping(): void {
    this.#isStopping = true;
  }

  readonly isStopping = (): boolean => this.#isStopping;

  /** @throws {UnavailableError} while the daemon is starting */
  readonly daemon = (): Daemon => {
    if (this.#daemon === undefined) throw new UnavailableError("the daemon is starting");
    return this.#daemon;
  };

  /** Tracks a run that was started over the API, so that its outcome can be asked for. @returns the run as it began */
  readonly track = (beginning: Begun): RunRecord => {
    void this.#awaitEnd(beginning);
    return beginning.run;
  };

  /** The outcome of a run that was started over the API. */
  readonly outcomeOf = (id: string): RunRecord | "under way" | undefined => this.#outcomes.get(id);

  /** How far a run under way is. */
  readonly progressOf = (id: string): RunUnderWay["progress"] => this.#progress.get(id);

  async #awaitEnd({ run: { id }, ended }: Begun): Promise<void> {
    this.#outcomes.delete(id);
    this.#outcomes.set(id, "under way");
    const [oldest] = this.#outcomes.keys();
    if (this.#outcomes.size > capacity && oldest !== undefined) this.#outcomes.delete(oldest);
    const run = await ended;
    if (this.#outcomes.has(id)) this.#outcomes.set(id, run);
    this.events.publish("ended", { id, run: runDocument(run) });
  }
}
