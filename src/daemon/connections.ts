import type { Logger } from "pino";
import type { Finding } from "./check.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { placeOf, syncOf } from "#daemon/wiring.ts";
import type { Configuration } from "#config/configuration.ts";
import type { Check, Checked, CheckFinding, ConfiguredSync, Connections } from "#console/context.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { redactAll } from "#redact.ts";
import { createQueue } from "#queue.ts";
import type { Actor } from "#state/record.ts";

/** What the console knows of sources and targets. */
export interface DaemonConnections extends Connections {
  /** Stops what is being checked. */
  close(): Promise<void>;
}

export interface DaemonConnectionsOptions {
  readonly current: () => Configuration;
  readonly embedded: Embedded;
  readonly log: Logger;
}

/** Checks for the console what `rollcall check` does, one thing at a time. What is found is in memory alone. */
export function createConnections({ current, embedded, log }: DaemonConnectionsOptions): DaemonConnections {
  const stop = new AbortController();
  const checking = createQueue();
  const checks = new Map<string, Check>();
  const listeners = new Set<() => void>();
  const set = (key: string, check: Check): void => {
    checks.set(key, check);
    for (const listener of listeners) listener();
  };

  const find = async (what: Checked, name: string, progress: (message?: string) => void): Promise<CheckFinding[]> => {
    // Only when somebody checks something: most daemons are never asked to.
    const { checkSourcesAndSyncs, checkTarget, headlineOf } = await import("./check.ts");
    const configuration = current();
    const { signal } = stop;
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
      const { reached = [], principals = [], problems = [], error } = finding;
      return {
        what: finding.what as Checked,
        name: finding.name,
        headline: error === undefined ? headlineOf(finding) : undefined,
        reached,
        principals,
        problems: [
          ...problems,
          ...warnings.filter((warning) => warning.startsWith(`${finding.what} ${finding.name}: `)),
        ],
        error: error === undefined ? undefined : errorDocument(error),
      };
    });
    return redactAll(found);
  };

  const check = async (what: Checked, name: string, waiting: Check): Promise<void> => {
    const key = keyOf(what, name);
    const began = performance.now();
    let findings: readonly CheckFinding[];
    try {
      set(key, { ...waiting, progress: "begins …" });
      findings = await find(what, name, (progress) => {
        if (progress !== undefined) set(key, { ...waiting, progress });
      });
    } catch (error) {
      // Such as a name that a reload has removed meanwhile.
      findings = [{ what, name, reached: [], principals: [], problems: [], error: errorDocument(error) }];
    }
    set(key, { ...waiting, findings, milliseconds: performance.now() - began });
  };

  return {
    syncs: () => Object.entries(current().syncs).map(([sync, configured]) => configuredSync(sync, configured)),
    sources: () =>
      Object.entries(current().sources).map(([name, { connector }]) => ({ name, connector: connector.name })),
    targets: () =>
      Object.entries(current().targets).map(([name, target]) => ({
        name,
        address: target === "embedded" ? undefined : placeOf(current(), name),
      })),
    checked: (what, name) => checks.get(keyOf(what, name)),
    check: (what, name, by: Actor) => {
      const before = checks.get(keyOf(what, name));
      if ((before !== undefined && before.findings === undefined) || stop.signal.aborted) return;
      log.info({ by }, `console: ${by.name} (${by.from}) checks the ${what} ${name}`);
      const waiting: Check = { startedAt: new Date().toISOString(), by: by.name };
      set(keyOf(what, name), waiting);
      void checking(() => check(what, name, waiting));
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: async () => {
      stop.abort(new UnavailableError("the daemon is stopping"));
      await checking.idle();
    },
  };
}

function keyOf(what: Checked, name: string): string {
  return `${what} ${name}`;
}

/** How many warnings of sources are shown. */
const mostWarnings = 20;

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
