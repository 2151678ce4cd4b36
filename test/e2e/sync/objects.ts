import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type { TargetAbilities } from "#connector.ts";
import csv from "#connectors/csv/index.ts";
import { Attributes } from "#principals/attributes.ts";
import { compileRules } from "#principals/compile.ts";
import { filesIn } from "#state/folder/store.ts";
import type { RunOptions, RunResult } from "#sync/context.ts";
import { run } from "#sync/run.ts";
import type { Sync } from "#sync/sync.ts";
import { attributesOfObjects, objectTarget, ObjectStore } from "../../support/object-target.ts";

const never = new AbortController().signal;

/** A sync of a CSV file to a target that is written change by change; for each test, both are empty. */
export interface Objects {
  folder(): string;
  store(): ObjectStore;
  /** Writes the source: `login,title,phone,teams`, the teams with `;` between them. */
  people(...lines: readonly string[]): Promise<void>;
  syncOf(abilities?: Partial<TargetAbilities>, rest?: Partial<Sync>): Sync;
  runIt(sync?: Sync, options?: Partial<RunOptions>): Promise<RunResult>;
  /** Empties both. */
  renew(): Promise<void>;
}

export function useObjects(): Objects {
  let folder: string;
  let store: ObjectStore;
  const begin = async (): Promise<void> => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-objects-"));
    store = new ObjectStore();
  };
  const end = (): Promise<void> => rm(folder, { recursive: true, force: true });
  beforeEach(begin);
  afterEach(end);
  const syncOf: Objects["syncOf"] = (abilities, rest = {}) => {
    const options = csv.options.parse({ users: { file: "people.csv", id: "login" } });
    return {
      name: "staff",
      sources: [{ name: "company", source: csv.open(options, { name: "company", folder }) }],
      rules: compileRules(
        {
          users: {
            name: "entry.login",
            displayName: "entry.login",
            title: "entry.title",
            phone: "entry.phone",
            emails: '[entry.login + "@example.com"]',
            costCentre: '"1"',
            groups: 'has(entry.teams) ? entry.teams.split(";") : []',
          },
          groupsFromRules: {},
        },
        undefined,
        undefined,
        undefined,
        undefined,
        new Attributes(attributesOfObjects),
      ),
      target: objectTarget(store, abilities),
      place: "objects",
      protection: { manage: "owned", makesGroups: true, users: [], groups: [] },
      departures: { after: 0, renames: "apply", reusedNames: "hold", administrators: [] },
      causes: true,
      drift: { policy: "revert", ignore: [] },
      keepManual: [],
      settings: {},
      limits: { sources: {}, floor: 10, action: "hold", deletes: { percent: 100, per: "run" } },
      ...rest,
    };
  };
  return {
    folder: () => folder,
    store: () => store,
    people: (...lines) => writeFile(join(folder, "people.csv"), ["login,title,phone,teams", ...lines, ""].join("\n")),
    syncOf,
    renew: async () => {
      await end();
      await begin();
    },
    runIt: (sync = syncOf(), options = {}) =>
      run(sync, {
        apply: true,
        files: filesIn(join(folder, "daemon")),
        memory: 256 * 1024 * 1024,
        interruption: { stop: never, abandon: never },
        warn: () => {},
        ...options,
      }),
  };
}
