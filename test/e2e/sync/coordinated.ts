import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { CoordinatorOptions, SyncSettings } from "#sync/coordinator/context.ts";
import type { Approval } from "#sync/coordinator/coordinator.ts";
import { FolderStore } from "#state/folder/store.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { call, login, post } from "../../support/rollcall/service.ts";
import type { Staff } from "./staff.ts";

export const ada = { name: "ada", from: "command line" } as const;

/** A coordinator of the staff's sync, with a clock that the test sets. */
export interface Coordinated {
  readonly coordinator: LocalCoordinator;
  readonly store: FolderStore;
  /** How far ahead of the real clock it is, in milliseconds. */
  ahead(milliseconds: number): void;
  /** A run of the schedule, to its end. */
  run(): Promise<RunRecord>;
  approve(id: string, approval?: Partial<Approval>): Promise<RunRecord>;
  undo(id: string): Promise<RunRecord>;
  /** As the journal has it. */
  find(id: string): RunRecord | undefined;
  readonly events: readonly SyncEvent[];
  /** What the audit log tells: `event run`, with its result. */
  told(): Promise<string[]>;
}

/** Opens a coordinator for one test: `change` replaces parts of the settings, `rest` of the sync. */
export async function coordinated(
  staff: Pick<Staff, "folder"> & { readonly syncOf: (change: object, rest: Partial<Sync>) => Sync },
  change: Partial<SyncSettings> = {},
  rest: () => Partial<Sync> = () => ({}),
  options: Partial<CoordinatorOptions> & { lists?: number } = {},
): Promise<Coordinated> {
  const folder = join(staff.folder(), "daemon");
  const retention = { keep: 90 * 86_400_000, runs: 100, lists: options.lists ?? 20 };
  const store = await FolderStore.open({ folder, retention, warn: () => {} });
  onTestFinished(() => store.close());
  let ahead = 0;
  const events: SyncEvent[] = [];
  const never = new AbortController().signal;
  const coordinator = new LocalCoordinator({
    store,
    memory: 256 * 1024 * 1024,
    interruption: { stop: never, abandon: never },
    now: () => Date.now() + ahead,
    open: async () => staff.syncOf({}, rest()),
    syncs: () => ({
      staff: {
        target: "analytics",
        place: "here",
        approval: "required",
        approvers: { people: 1, beyondLimits: 1, notTheRequester: false },
        approvalExpires: 86_400_000,
        ...change,
      },
    }),
    ...options,
  });
  onTestFinished(() => coordinator.close());
  coordinator.subscribe((event) => {
    if (event.type !== "stage") events.push(event);
  });
  const ended = async (begun: ReturnType<LocalCoordinator["begin"]>): Promise<RunRecord> => (await begun).ended;
  return {
    coordinator,
    store,
    ahead: (milliseconds) => {
      ahead = milliseconds;
    },
    run: () =>
      ended(coordinator.begin({ sync: "staff", cause: "schedule", by: { name: "rollcall", from: "schedule" } })),
    approve: (id, approval = {}) => ended(coordinator.approve(id, { by: ada, ...approval })),
    undo: (id) => ended(coordinator.undo(id, { by: ada })),
    find: (id) => coordinator.runs().find((run) => run.id === id),
    events,
    told: async () => {
      const text = await readFile(join(folder, "audit.jsonl"), "utf8");
      return text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as { event: string; result?: string })
        .map(({ event, result }) => (result === undefined ? event : `${event} ${result}`));
    },
  };
}

/** The whole directory of the staff's service but for what is in it from the start: what it is, without what it counts. */
export async function directoryOf(url: string): Promise<string> {
  const { text } = await call(`${url}/tspublic/v1/user/list`, { session: await login(url) });
  const list = JSON.parse(text) as Record<string, unknown>[];
  return list
    .map(({ name, displayName, principalTypeEnum, groupNames, mail, description }) =>
      JSON.stringify({ name, displayName, principalTypeEnum, groupNames, mail, description }),
    )
    .toSorted()
    .join("\n");
}

/** Somebody else changes the service by hand: adds these principals, or changes them. */
export async function byHand(url: string, ...principals: readonly object[]): Promise<void> {
  const form = { applyChanges: "true", remoteDeleted: "false", principals: JSON.stringify(principals) };
  const { status } = await post(`${url}/tspublic/v1/user/sync`, form, { session: await login(url) });
  if (status !== 200) throw new Error(`the service answered ${status}`);
}
