import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import type { RunRecord } from "#state/record.ts";
import { startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";
import type { Killing } from "../../support/rollcall/crash-process.ts";
import { by, createInstallation, versionOf } from "../../support/rollcall/installation.ts";
import type { People, Installation, Syncs } from "../../support/rollcall/installation.ts";

/** What a sync has in the directory before and after what is done. */
export interface Sides {
  readonly before: People;
  readonly after: People;
}

/** Processes that are killed while they work for some syncs, in one installation for a file of tests, with one service. */
export interface Crashes {
  installation(): Installation;
  /** Works in a new installation. */
  anew(syncs: Syncs, work: () => Promise<void>): Promise<void>;
  servicePid(): number;
  /** Starts the service again, once it has ended. */
  restartService(): Promise<void>;
  /** The source of a sync has changed. */
  next(sync: string): Promise<Sides & { readonly n: number }>;
  /** Brings a sync to its first versions, so that the next one creates, changes and deletes. */
  settle(sync: string): Promise<void>;
  /**
   * Kills and recovers. The directory must be one of both sides, and the run must say which.
   * @param survived called instead of expecting that the process was killed
   * @returns the run, if it had begun
   */
  crash(
    sync: string,
    killing: Omit<Killing, "folder">,
    sides: Sides,
    survived?: () => Promise<void>,
  ): Promise<RunRecord | undefined>;
  /** What is left to do is done by the next runs, all of it and nothing else. @returns the directory then */
  goOn(sync: string, run: RunRecord | undefined): Promise<People>;
  /** A run that awaits approval, or is held. */
  waiting(sync: string): Promise<RunRecord>;
}

export function useCrashes(syncs: Syncs): Crashes {
  let data: string;
  let service: TestService;
  let installation: Installation;
  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), "rollcall-service-"));
    service = await startService({ data });
    installation = await createInstallation(() => service, syncs);
  });
  afterAll(async () => {
    await service.stop();
    await installation.remove();
    await rm(data, { recursive: true });
  });
  const versions = new Map<string, number>();
  const next: Crashes["next"] = async (sync) => {
    const n = (versions.get(sync) ?? 0) + 1;
    versions.set(sync, n);
    await installation.write(sync, n);
    return { n, before: n === 1 ? {} : versionOf(sync, n - 1), after: versionOf(sync, n) };
  };
  return {
    installation: () => installation,
    next,
    anew: async (others, work) => {
      const shared = installation;
      installation = await createInstallation(() => service, others);
      try {
        await work();
      } finally {
        await installation.remove();
        installation = shared;
      }
    },
    servicePid: () => service.running.process.pid ?? 0,
    restartService: async () => {
      const listen = new URL(service.url).host;
      await service.running.ended;
      service = await startService({ data, service: { listen } });
    },
    settle: async (sync) => {
      while ((versions.get(sync) ?? 0) < 3) {
        await next(sync);
        await installation.converge(sync);
      }
    },
    crash: async (sync, killing, sides, survived) => {
      const known = new Set((await installation.runsOf(sync)).map(({ id }) => id));
      const { signal, said } = await installation.kill(killing);
      if (survived === undefined) expect(signal, `${killing.point} is not reached: ${said}`).toBe("SIGKILL");
      await survived?.();
      const runs = await installation.recover(sync);
      const { action } = killing;
      const decided = action.do === "approve" || action.do === "reject" ? action.run : undefined;
      const run = runs.find(({ id }) => (decided === undefined ? !known.has(id) : id === decided));
      expect(await installation.directory(sync)).toEqual(run?.state === "applied" ? sides.after : sides.before);
      return run;
    },
    goOn: async (sync, run) => {
      const applied = await installation.converge(sync);
      expect(applied).toHaveLength(run?.state === "applied" ? 0 : 1);
      return installation.directory(sync);
    },
    waiting: (sync) =>
      installation.work(async (coordinator) => {
        const run = await (await coordinator.begin({ sync, cause: "schedule", by })).ended;
        expect(run.expiresAt, JSON.stringify(run)).toBeDefined();
        return run;
      }),
  };
}
