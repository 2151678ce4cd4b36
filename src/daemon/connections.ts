import type { Note } from "#plan/note.ts";
import type { Logger } from "pino";
import type { Finding } from "./check.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { placeOf } from "#daemon/targets.ts";
import { syncOf } from "#daemon/wiring.ts";
import type { Configuration } from "#config/configuration.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import { redactAll } from "#redact.ts";
import { createQueue } from "#queue.ts";
import type { Actor } from "#state/record.ts";
import type { ApprovalPolicy } from "#sync/context.ts";

/** A sync as it is configured. Durations are in milliseconds. */
export interface ConfiguredSync {
  readonly sync: string;
  readonly target: string;
  readonly sources: readonly { readonly name: string; readonly optional: boolean }[];
  /** A cron expression, and the time zone it is in; absent: on demand, and that of this machine. */
  readonly schedule?: string | undefined;
  readonly timezone?: string | undefined;
  readonly retries: number;
  /** How long it may go without a success; absent: forever. */
  readonly overdueAfter?: number | undefined;
  readonly approval: ApprovalPolicy;
  /** How long leavers stay in the target. */
  readonly grace: number;
  /** What a tripped limit does. */
  readonly beyondLimits: "hold" | "apply-the-rest";
  readonly exports: boolean;
}

/** What can be checked. */
export type Checked = "sync" | "source" | "target";

/** What `rollcall check` says of one name of the configuration, without secrets. */
export interface CheckFinding {
  readonly what: Checked;
  readonly name: string;
  /** `5 users, 2 groups`, `reached`; absent: it failed. */
  readonly headline?: string | undefined;
  /** What was reached, how the connection is protected, and as whom. */
  readonly reached: readonly string[];
  /** The first principals that the rules make. */
  readonly principals: readonly Readonly<Record<string, unknown>>[];
  /** For a person to look at. */
  readonly problems: readonly Note[];
  readonly error?: ErrorDocument | undefined;
}

/** A check that somebody asked for: it waits or is under way, or it has ended. */
export interface Check {
  /** ISO 8601. */
  readonly startedAt: string;
  /** Who asked for it. */
  readonly by: string;
  /** What is being done; absent: it waits for another check. */
  readonly progress?: string | undefined;
  /** What was found; absent: it has not ended. */
  readonly findings?: readonly CheckFinding[] | undefined;
  /** How long it took, once it has ended. */
  readonly milliseconds?: number | undefined;
}

export interface ConnectionsOptions {
  readonly current: () => Configuration;
  readonly embedded: Embedded;
  readonly log: Logger;
}

/** How many warnings of sources are shown. */
const mostWarnings = 20;

/**
 * The sources, targets and syncs of the configuration, for the console, which checks them as `rollcall check` does, one at a
 * time. Results are in memory alone.
 */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #stop = new AbortController();
  readonly #checking = createQueue();
  readonly #checks = new Map<string, Check>();
  readonly #listeners = new Set<() => void>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  syncs(): readonly ConfiguredSync[] {
    return Object.entries(this.#options.current().syncs).map(([sync, configured]) => configuredSync(sync, configured));
  }

  /** With the word after `connector:`. */
  sources(): readonly { readonly name: string; readonly connector: string }[] {
    const { sources } = this.#options.current();
    return Object.entries(sources).map(([name, { connector }]) => ({ name, connector: connector.name }));
  }

  /** With its address without a password; undefined: the service of this data folder. */
  targets(): readonly { readonly name: string; readonly address?: string | undefined }[] {
    const configuration = this.#options.current();
    return Object.entries(configuration.targets).map(([name, target]) => ({
      name,
      address: target === "embedded" ? undefined : placeOf(configuration, name),
    }));
  }

  /** The last check of something; undefined: there was none since the daemon began. */
  checked(what: Checked, name: string): Check | undefined {
    return this.#checks.get(keyOf(what, name));
  }

  /** Begins a check, unless one is under way. A sync is checked with its sources. */
  check(what: Checked, name: string, by: Actor): void {
    const before = this.checked(what, name);
    if ((before !== undefined && before.findings === undefined) || this.#stop.signal.aborted) return;
    this.#options.log.info({ by }, `console: ${by.name} (${by.from}) checks the ${what} ${name}`);
    const waiting: Check = { startedAt: new Date().toISOString(), by: by.name };
    this.#set(what, name, waiting);
    void this.#checking(() => this.#run(what, name, waiting));
  }

  /** Calls `listener` whenever a check moves on. Returns a function that ends that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stops what is being checked. */
  async close(): Promise<void> {
    this.#stop.abort(new UnavailableError("the daemon is stopping"));
    await this.#checking.idle();
  }

  async #run(what: Checked, name: string, waiting: Check): Promise<void> {
    const began = performance.now();
    let findings: readonly CheckFinding[];
    try {
      this.#set(what, name, { ...waiting, progress: "begins …" });
      findings = await this.#find(what, name, (progress) => {
        if (progress !== undefined) this.#set(what, name, { ...waiting, progress });
      });
    } catch (error) {
      // Such as a name that a reload has removed meanwhile.
      findings = [{ what, name, reached: [], principals: [], problems: [], error: errorDocument(error) }];
    }
    this.#set(what, name, { ...waiting, findings, milliseconds: performance.now() - began });
  }

  async #find(what: Checked, name: string, progress: (message?: string) => void): Promise<CheckFinding[]> {
    // Only when somebody checks something: most daemons are never asked to.
    const { checkSourcesAndSyncs, checkTarget, headlineOf } = await import("./check.ts");
    const { current, embedded, log } = this.#options;
    const configuration = current();
    const { signal } = this.#stop;
    const warnings: string[] = [];
    const warn = (message: string): void => {
      if (warnings.length < mostWarnings) warnings.push(message);
    };
    const context = { configuration, embedded, log, signal, warn, progress };
    const findings: Finding[] = [];
    if (what === "target") findings.push(await checkTarget(context, name));
    else {
      const wanted =
        what === "source"
          ? { sources: [name], syncs: [] }
          : { sources: syncOf(configuration, name).from, syncs: [name] };
      const { sources, syncs } = await checkSourcesAndSyncs(context, wanted);
      findings.push(...sources, ...syncs);
    }
    signal.throwIfAborted();
    const found = findings.map((finding): CheckFinding => {
      const { what, name, reached = [], principals = [], problems = [], error } = finding;
      const warned = warnings.filter((warning) => warning.startsWith(`${what} ${name}: `));
      return {
        what: what as Checked,
        name,
        headline: error === undefined ? headlineOf(finding) : undefined,
        reached,
        principals,
        problems: [...problems, ...warned.map((text) => ({ text }))],
        error: error === undefined ? undefined : errorDocument(error),
      };
    });
    return redactAll(found);
  }

  #set(what: Checked, name: string, check: Check): void {
    this.#checks.set(keyOf(what, name), check);
    for (const listener of this.#listeners) listener();
  }
}

function keyOf(what: Checked, name: string): string {
  return `${what} ${name}`;
}

function configuredSync(sync: string, configured: Configuration["syncs"][string]): ConfiguredSync {
  const { from, optional, to, schedule, timezone, retries, overdueAfter, approval, deletions, limits } = configured;
  return {
    sync,
    target: to,
    sources: from.map((name) => ({ name, optional: optional.includes(name) })),
    schedule,
    timezone,
    retries: retries.attempts,
    overdueAfter,
    approval,
    grace: deletions.after,
    beyondLimits: limits.action,
    exports: configured.export !== undefined,
  };
}
