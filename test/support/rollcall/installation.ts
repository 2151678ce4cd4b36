import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { readJournal } from "#state/folder/journal.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { Overridable } from "#plan/limits.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { checkAudit, checkFiles, checkHistory, checkLists } from "./stored-checks.ts";
import { withCoordinatorIn } from "./local-coordinator.ts";
import type { Killing } from "./crash-process.ts";
import { spawnProgram } from "../process.ts";
import { administrator, call, login } from "./service.ts";
import type { TestService } from "./service.ts";

/** The principals of a directory by name: display name and groups. */
export type People = Readonly<Record<string, string>>;

/**
 * What the rules make of a source at version `n`: three people and their group. From one version to the next somebody
 * joins, somebody leaves, and all the others change.
 */
export function versionOf(sync: string, n: number): People {
  const people = [n - 2, n - 1, n].filter((index) => index > 0).map((index) => `${sync}-${index}`);
  return {
    [`${sync}-team`]: `Team ${n}: `,
    ...Object.fromEntries(people.map((name) => [name, `${name} at ${n}: ${sync}-team`])),
  };
}

export const by = { name: "ada", from: "command line" };
/** Another person, where two must approve: a user of the service, whom no local account has to vouch for. */
export const other = { name: "grace", from: "192.0.2.2", via: "service" } as const;

/** A data folder with a configuration whose syncs go to one service. */
export interface Installation {
  readonly folder: string;
  /** Writes version `n` of a sync's source. */
  write(sync: string, n: number): Promise<void>;
  /** The principals in the service that belong to a sync. */
  directory(sync: string): Promise<People>;
  /** Runs an action in another process, which is killed on the way. */
  kill(killing: Omit<Killing, "folder">): Promise<{ readonly signal: string | null; readonly said: string }>;
  work<Result>(work: (coordinator: LocalCoordinator, logged: readonly string[]) => Promise<Result>): Promise<Result>;
  /** Recovers earlier runs and checks everything that is stored. @returns the runs of the sync */
  recover(sync: string): Promise<readonly RunRecord[]>;
  runsOf(sync: string): Promise<readonly RunRecord[]>;
  /** Runs a sync until nothing is left to do, approving what must be. @returns the applied runs */
  converge(sync: string): Promise<RunRecord[]>;
  remove(): Promise<void>;
}

export type Syncs = Readonly<Record<string, { readonly approval?: string | object; readonly limits?: object }>>;

export async function createInstallation(service: () => TestService, syncs: Syncs): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-crash-"));
  const daemon = join(folder, "data", "daemon");
  // JSON is YAML.
  await writeFile(join(folder, "rollcall.yaml"), JSON.stringify(configurationOf(syncs, service().url)));
  let session: string | undefined;

  const directory = async (sync: string): Promise<People> => {
    const url = `${service().url}/tspublic/v1/user/list`;
    let answer = await call(url, session === undefined ? {} : { session });
    if (answer.status === 401) answer = await call(url, { session: (session = await login(service().url)) });
    const list = JSON.parse(answer.text) as { name: string; displayName: string; groupNames: string[] }[];
    const own = list.filter(({ name }) => name.startsWith(`${sync}-`));
    return Object.fromEntries(
      own.map(({ name, displayName, groupNames }) => [
        name,
        `${displayName}: ${groupNames.filter((group) => group !== "All").join()}`,
      ]),
    );
  };
  const work: Installation["work"] = (what) => withCoordinatorIn(folder, what);
  const runsOf = async (sync: string): Promise<readonly RunRecord[]> =>
    (await readJournal(daemon)).runs.filter((run) => run.sync === sync);

  return {
    folder,
    directory,
    runsOf,
    work,
    write: async (sync, n) => {
      const version = versionOf(sync, n);
      const people = Object.entries(version).filter(([name]) => name !== `${sync}-team`);
      const rows = people.map(([name, is]) => `${name},${is.split(":", 1)[0]},${sync}-team`);
      await writeFile(join(folder, `${sync}.csv`), ["id,name,team", ...rows, ""].join("\n"));
      await writeFile(join(folder, `${sync}-teams.csv`), `id,name\n${sync}-team,Team ${n}\n`);
    },
    kill: async (killing) => {
      const program = new URL("./crash-process.ts", import.meta.url);
      const child = spawnProgram(program, [JSON.stringify({ folder, ...killing })]);
      const said = Promise.all([text(child.stdout), text(child.stderr)]);
      const [, signal] = (await once(child, "exit")) as [number | null, string | null];
      return { signal, said: (await said).join("") };
    },
    recover: async (sync) => {
      const before = await readJournal(daemon);
      const unseen = before.runs.filter(({ state, endUnknown }) => state === "running" || endUnknown === true);
      await work((coordinator) => coordinator.recover());
      const runs = await runsOf(sync);
      expect(runs.filter(({ state, endUnknown }) => state === "running" || endUnknown === true)).toEqual([]);
      for (const { id } of unseen) expect(runs.find((run) => run.id === id)?.recovery).toMatch(/\w/);
      await checkLists(daemon);
      await checkAudit(daemon);
      await checkHistory(daemon, sync);
      return runs;
    },
    converge: async (sync) => {
      const applied = await work(async (coordinator) => {
        const all: RunRecord[] = [];
        for (let round = 0; round < 3; round++) {
          const found = await (await coordinator.begin({ sync, cause: "schedule", by })).ended;
          const open = found.sameAs ?? (found.expiresAt === undefined ? undefined : found.id);
          const overrides = sync === "guarded" ? (["creates"] as const) : [];
          const run = open === undefined ? found : await approved(coordinator, open, overrides);
          if (run.state === "no change") return all;
          expect(run, JSON.stringify(run, undefined, 1)).toMatchObject({ state: "applied" });
          all.push(run);
        }
        throw new Error("it does not come to rest");
      });
      await checkLists(daemon);
      checkFiles(daemon);
      await checkAudit(daemon);
      await checkHistory(daemon, sync);
      return applied;
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

function configurationOf(syncs: Syncs, url: string): object {
  const unlimited = { deletes: "none", updates: "none", membershipsLost: "none", blanked: "none", shrink: "none" };
  const { name: username, password } = administrator;
  return {
    targets: { analytics: { url: url, username, password } },
    sources: Object.fromEntries(
      Object.keys(syncs).map((sync) => [
        sync,
        {
          connector: "csv",
          users: { file: `${sync}.csv`, id: "id", memberOf: { column: "team" } },
          groups: { file: `${sync}-teams.csv`, id: "id" },
        },
      ]),
    ),
    syncs: Object.fromEntries(
      Object.entries(syncs).map(([sync, { limits, ...rest }]) => [
        sync,
        {
          from: [sync],
          to: "analytics",
          users: { name: "entry.id", displayName: "entry.name" },
          groups: { name: "entry.id", displayName: "entry.name" },
          limits: { ...unlimited, ...limits },
          ...rest,
        },
      ]),
    ),
  };
}

/** Approves a plan as everybody who must. */
async function approved(
  coordinator: LocalCoordinator,
  id: string,
  overrides: readonly Overridable[],
): Promise<RunRecord> {
  const { approvals = [] } = coordinator.runs().find((run) => run.id === id) ?? {};
  const [first, second] = [by, other].filter(({ name }) => !approvals.some((each) => each.by.name === name));
  const run = await (await coordinator.approve(id, { by: first ?? by, overrides })).ended;
  if (second === undefined || !isOpen(run)) return run;
  return (await coordinator.approve(id, { by: second, overrides })).ended;
}
