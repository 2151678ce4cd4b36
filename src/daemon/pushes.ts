import type { Configuration } from "#config/configuration.ts";
import { messageOf } from "#errors.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import type { Actor } from "#state/record.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import { readyAt } from "#state/inbox/status.ts";
import { inboxesOf } from "./wiring.ts";

export interface PushesOptions {
  readonly coordinator: Pick<Coordinator, "begin" | "syncs" | "runs">;
  readonly inboxes: Pick<Inboxes, "read">;
  /** The current configuration. */
  readonly configuration: () => Configuration;
  /** In epoch milliseconds. */
  readonly now: () => number;
  readonly log: { info(message: string): void; error(message: string): void };
}

/** How often inboxes are looked at, in milliseconds. */
const every = 3_000;

const provider: Actor = { name: "rollcall", from: "push" };

/**
 * Begins a run of each sync that has a schedule once an inbox of its sources has settled after a push that no run has seen.
 * A run that failed is not repeated for the same push: the schedule, and its retries, do that.
 */
export class Pushes {
  readonly #options: PushesOptions;
  /** By sync and source: the last push that a run was begun for, in epoch milliseconds. */
  readonly #begun = new Map<string, number>();
  /** By source: what was wrong at the last look. */
  readonly #problems = new Map<string, string>();
  /** The sources that more may be on its way to. */
  #restless = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: PushesOptions) {
    this.#options = options;
    this.#timer = setTimeout(() => void this.#look(), every);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** Whether a run of a sync begins once its sources have settled, and would wait for that now. */
  waits(sync: string): boolean {
    return this.#options.configuration().syncs[sync]?.from.some((source) => this.#restless.has(source)) === true;
  }

  async #look(): Promise<void> {
    const { configuration, log } = this.#options;
    const restless = new Set<string>();
    for (const [source, settings] of Object.entries(inboxesOf(configuration()))) {
      try {
        const { last, ready } = await this.#activity(source, settings);
        if (!ready) restless.add(source);
        else if (last !== undefined && !this.#isStopped) this.#beginFor(source, last);
        this.#problems.delete(source);
      } catch (error) {
        const problem = messageOf(error);
        if (problem !== this.#problems.get(source)) log.error(`inbox ${source} cannot be read: ${problem}`);
        this.#problems.set(source, problem);
      }
    }
    this.#restless = restless;
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#look(), every);
  }

  /** When the last push came, in epoch milliseconds, and whether it may be read. */
  #activity(
    source: string,
    settings: Parameters<typeof readyAt>[1],
  ): Promise<{ readonly last: number | undefined; readonly ready: boolean }> {
    const now = this.#options.now();
    return this.#options.inboxes.read(source, async (inbox) => {
      const { last } = await inbox.activity();
      return { last, ready: (await readyAt(inbox, settings, now)) <= now };
    });
  }

  #beginFor(source: string, last: number): void {
    const { configuration, coordinator, log } = this.#options;
    const running = new Set(coordinator.syncs().flatMap(({ sync, running }) => (running === undefined ? [] : [sync])));
    for (const [sync, { from, schedule }] of Object.entries(configuration().syncs)) {
      const key = `${sync}\n${source}`;
      if (schedule === undefined || !from.includes(source) || running.has(sync)) continue;
      // Not by their order: the clock may have been set back.
      if (last === this.#begun.get(key) || last === this.#seen(sync, source)) continue;
      this.#begun.set(key, last);
      log.info(`sync ${sync}: begins, as ${source} has settled after a push`);
      coordinator.begin({ sync, cause: "schedule", by: provider }).catch((error: unknown) => {
        log.error(`sync ${sync}: no run could begin: ${messageOf(error)}`);
      });
    }
  }

  /** How far the runs of a sync have come with the pushes to a source, in epoch milliseconds. */
  #seen(sync: string, source: string): number {
    for (const run of this.#options.coordinator.runs()) {
      const until =
        run.sync === sync && run.for === undefined ? run.sources?.find((each) => each.source === source) : undefined;
      if (until?.pushedUntil !== undefined) return Date.parse(until.pushedUntil);
    }
    return 0;
  }
}
