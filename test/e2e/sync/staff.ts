import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import csv from "#connectors/csv/index.ts";
import { openTarget } from "#client/target.ts";
import { compileRules } from "#principals/compile.ts";
import type { ListTarget } from "#connector.ts";
import { run } from "#sync/run.ts";
import type { RunOptions, RunResult } from "#sync/context.ts";
import { filesIn } from "#state/folder/store.ts";
import type { Sync } from "#sync/sync.ts";
import { administrator, call, login, post, startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";

/** A sync to a service. */
export type StaffSync = Sync & { readonly target: ListTarget };

/** A sync of a CSV file of people to a real service in a process of its own; for each test, both are empty. */
export interface Staff {
  service(): TestService;
  /** Where the source is, and the daemon's folder `daemon`. */
  folder(): string;
  /** Writes the source: a login for each. */
  people(...names: readonly string[]): Promise<void>;
  /** The sync, with parts of its target and of itself replaced. */
  syncOf(change?: Partial<ListTarget>, rest?: Partial<Omit<Sync, "target">>): StaffSync;
  runIt(sync: Sync, apply?: boolean, options?: Partial<RunOptions>): Promise<RunResult>;
  /** The names of the service's users. */
  users(): Promise<string[]>;
  /** Somebody else creates a user, by hand. */
  create(name: string): Promise<void>;
}

const never = new AbortController().signal;

export function useStaff(): Staff {
  let service: TestService;
  let folder: string;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());
  beforeEach(async () => {
    await submit([], "true");
    folder = await mkdtemp(join(tmpdir(), "rollcall-run-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));
  const submit = async (principals: readonly object[], remoteDeleted: "true" | "false"): Promise<void> => {
    const form = { applyChanges: "true", remoteDeleted, principals: JSON.stringify(principals) };
    const { status } = await post(`${service.url}/tspublic/v1/user/sync`, form, { session: await login(service.url) });
    expect(status).toBe(200);
  };
  return {
    service: () => service,
    folder: () => folder,
    people: (...names) => writeFile(join(folder, "people.csv"), ["login", ...names, ""].join("\n")),
    syncOf: (change = {}, rest = {}) => {
      const target = openTarget({
        name: "analytics",
        url: service.url,
        prefix: "",
        credentials: { username: administrator.name, password: administrator.password },
      });
      const options = csv.options.parse({ users: { file: "people.csv", id: "login" } });
      return {
        name: "staff",
        sources: [{ name: "company", source: csv.open(options, { name: "company", folder }) }],
        rules: compileRules({ users: { name: "entry.login", displayName: "entry.login" } }),
        target: { ...target, ...change },
        place: service.url,
        protection: { manage: "owned", makesGroups: false, users: ["admin"], groups: ["Administrator", "All"] },
        departures: { after: 0, renames: "apply", reusedNames: "hold", administrators: ["Administrator"] },
        causes: true,
        drift: { policy: "revert", ignore: [] },
        keepManual: [],
        settings: {},
        limits: { sources: {}, floor: 10, action: "hold", deletes: { percent: 10, per: "run" } },
        ...rest,
      };
    },
    runIt: (sync, apply = true, options = {}) =>
      run(sync, {
        apply,
        files: filesIn(join(folder, "daemon")),
        memory: 256 * 1024 * 1024,
        interruption: { stop: never, abandon: never },
        warn: () => {},
        ...options,
      }),
    users: async () => {
      const { text } = await call(`${service.url}/tspublic/v1/user/list`, { session: await login(service.url) });
      const list = JSON.parse(text) as { name: string; principalTypeEnum: string }[];
      return list.filter(({ principalTypeEnum }) => principalTypeEnum === "LOCAL_USER").map(({ name }) => name);
    },
    create: (name) => submit([{ name, displayName: name, principalTypeEnum: "LOCAL_USER", password: "x" }], "false"),
  };
}
