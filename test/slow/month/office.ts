import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { connectors } from "#connectors/index.ts";
import type { Context } from "#daemon/context.ts";
import { openLocalCoordinator } from "#daemon/coordinator.ts";
import { holdLock } from "#daemon/data-folder.ts";
import { openOutput } from "#daemon/output.ts";
import { openStore, recordConfiguration } from "#daemon/records.ts";
import { loadConfiguration } from "#config/load.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { RunRequest, Watcher } from "#sync/coordinator/coordinator.ts";
import { isOverdue, reportOverdue } from "#daemon/scheduler.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import type { ScheduleState } from "#daemon/scheduler.ts";
import { reader } from "../../support/ldap/openldap.ts";
import { administrator } from "../../support/rollcall/service.ts";
import { groups, people } from "./directory.ts";

/** In milliseconds. */
const minute = 60_000;
export const [hour, day] = [60 * minute, 1440 * minute] as const;

/** What a test changes of the configuration. */
interface Settings {
  readonly filter: string;
  readonly grace: string | 0;
  readonly approval: "required" | "automatic-within-limits";
  readonly emptyContainers: "fail" | "allowed";
}

const usual: Settings = {
  filter: "(objectClass=inetOrgPerson)",
  grace: "7d",
  approval: "automatic-within-limits",
  emptyContainers: "fail",
};

/** The daemon's part of the company, in this process: its clock stands still until it is told to go on. */
export interface Office {
  readonly config: string;
  readonly folder: string;
  readonly coordinator: LocalCoordinator;
  /** What has happened so far. */
  readonly events: readonly SyncEvent[];
  now(): number;
  /** Lets so many milliseconds pass. */
  pass(milliseconds: number): void;
  /** Writes another configuration, which is taken over as on SIGHUP. */
  configure(settings: Partial<Settings>): Promise<void>;
  /** A run, a minute after what was before. */
  run(request?: Partial<RunRequest>, watcher?: Watcher): Promise<RunRecord>;
  /** The dead-man's switch looks at the clock. */
  look(): void;
  /** Ends it, so that another process can have the data folder. */
  leave(): Promise<void>;
  /** Ends it, and removes its folder. */
  close(): Promise<void>;
}

const sync = "staff";
export const person = { name: "olga", from: "command line" };

/** @param start the time at which it begins, in epoch milliseconds */
export async function openOffice(ldap: string, service: string, start: number): Promise<Office> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-month-"));
  const config = join(folder, "rollcall.yaml");
  const log = pino({ level: "silent" });
  const never = new AbortController().signal;
  let now = start;
  const load = async (settings: Settings): Promise<Context["configuration"]> => {
    // JSON is YAML.
    await writeFile(config, JSON.stringify(configurationOf(ldap, service, settings)), { mode: 0o600 });
    return loadConfiguration(config, { connectors });
  };
  let context: Context = {
    configuration: await load(usual),
    embedded: { access: () => Promise.reject(new Error("there is no embedded service")), close: async () => {} },
    interruption: { stop: never, abandon: never },
    log,
    output: openOutput({ json: true }),
  };
  const lock = await holdLock(context.configuration);
  const store = await openStore(context.configuration, log);
  const watched = (): Parameters<typeof isOverdue>[0] => {
    const { overdueAfter } = context.configuration.syncs[sync] ?? {};
    return { name: sync, ...(overdueAfter === undefined ? {} : { overdueAfter }) };
  };
  const coordinator = await openLocalCoordinator(() => context, store, {
    now: () => now,
    statusOf: () => ({ overdue: isOverdue(watched(), memory, now) }),
  });
  const memory: ScheduleState = {
    state: (name) => coordinator.state(name),
    emit: (event) => {
      coordinator.emit(event);
    },
    note: (name, patch) => {
      void coordinator.change(name, (state) => {
        const entries = Object.entries({ ...state, ...patch }).filter(([, value]) => value !== undefined);
        return Object.fromEntries(entries) as unknown as typeof state;
      });
    },
  };
  let left = false;
  const leave = async (): Promise<void> => {
    if (left) return;
    left = true;
    await coordinator.close();
    await store.close();
    lock.release();
  };
  const events: SyncEvent[] = [];
  coordinator.subscribe((event) => events.push(event));
  await coordinator.recover();
  return {
    config,
    folder,
    coordinator,
    events,
    now: () => now,
    pass: (milliseconds) => {
      now += milliseconds;
    },
    configure: async (settings) => {
      context = { ...context, configuration: await load({ ...usual, ...settings }) };
      await recordConfiguration(context.configuration, store, person);
    },
    run: async (request = {}, watcher) => {
      now += minute;
      const by = { name: "rollcall", from: "schedule" };
      const { ended } = await coordinator.begin({ sync, cause: "schedule", by, ...request }, watcher);
      return ended;
    },
    look: () => {
      reportOverdue(watched(), memory, now);
    },
    leave,
    close: async () => {
      await leave();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function configurationOf(
  ldap: string,
  service: string,
  { filter, grace, approval, emptyContainers }: Settings,
): object {
  return {
    targets: {
      analytics: { url: service, username: administrator.name, password: administrator.password },
    },
    sources: {
      corp: {
        connector: "ldap",
        url: ldap,
        bind: { dn: reader.dn, password: reader.password },
        fullReadEvery: "2d",
        emptyContainers,
        users: { base: people, filter },
        groups: { base: groups, filter: "(objectClass=groupOfMembers)" },
      },
    },
    syncs: {
      staff: {
        from: ["corp"],
        to: "analytics",
        schedule: "0 * * * *",
        overdueAfter: "2d",
        users: {
          include: 'entry.employeeType == "employee"',
          name: "lower(entry.uid)",
          displayName: "entry.displayName",
          mail: "entry.mail",
          description: "entry.title",
        },
        groups: { name: "entry.cn", displayName: "entry.cn", description: "entry.description" },
        manage: "owned",
        protect: { users: ["svc-*"] },
        deletions: { after: grace },
        limits: {
          deletes: "5%",
          updates: "30%",
          membershipsLost: { percent: 10, perGroup: "none" },
          shrink: "20%",
          minUsers: 100,
          minGroups: 20,
          floor: 5,
        },
        approval,
        defaultPassword: "a-first-password",
      },
    },
    journal: { keep: "90d", runs: 1000, lists: 100 },
  };
}
