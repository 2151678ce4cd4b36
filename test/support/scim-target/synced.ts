import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import csv from "#connectors/csv/index.ts";
import scim from "#connectors/scim/target/index.ts";
import { Attributes } from "#principals/attributes.ts";
import { compileRules } from "#principals/compile.ts";
import { filesIn } from "#state/folder/store.ts";
import type { RunOptions, RunResult } from "#sync/context.ts";
import { run } from "#sync/run.ts";
import type { Sync } from "#sync/sync.ts";
import type { ScimApplication } from "./server.ts";

const never = new AbortController().signal;

/** A person of the source. */
export interface Person {
  /** What identifies them. Absent: the login. */
  readonly key?: string | undefined;
  readonly login: string;
  readonly title?: string | undefined;
  readonly teams: readonly string[];
}

/** Names that the sync leaves alone. */
interface Protect {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** A sync of a CSV file to an application. */
export class Synced {
  readonly folder: string;
  readonly application: ScimApplication;
  readonly #options: Readonly<Record<string, unknown>>;
  readonly #suspends: boolean;
  readonly #protect: Protect;

  /**
   * @param options of the target, beside its URL and token
   * @param suspends who leaves is suspended, and not deleted
   */
  static async in(
    application: ScimApplication,
    options: Readonly<Record<string, unknown>>,
    suspends: boolean,
    protect: Protect = { users: [], groups: [] },
  ): Promise<Synced> {
    return new Synced(await mkdtemp(join(tmpdir(), "rollcall-scim-")), application, options, { suspends, protect });
  }

  private constructor(
    folder: string,
    application: ScimApplication,
    options: Readonly<Record<string, unknown>>,
    { suspends, protect }: { readonly suspends: boolean; readonly protect: Protect },
  ) {
    this.folder = folder;
    this.#suspends = suspends;
    this.#protect = protect;
    this.application = application;
    this.#options = options;
  }

  /** Writes the source. */
  people(people: Iterable<Person>): Promise<void> {
    const lines = [...people].map(
      ({ login, key = login, title = "", teams }) => `${key},${login},${title},${teams.join(";")}`,
    );
    return writeFile(join(this.folder, "people.csv"), ["key,login,title,teams", ...lines, ""].join("\n"));
  }

  /** One run, with the target opened and closed as a command does. */
  async run(options: Partial<RunOptions> = {}): Promise<RunResult> {
    const { url, token } = this.application;
    const parsed = scim.options.parse({ url, token, timeouts: { connect: "2s" }, ...this.#options });
    const target = scim.open(parsed, { name: "app", folder: this.folder });
    try {
      return await run(
        { ...this.#sync(new Attributes(scim.declare(parsed), { leavesOthers: true })), target },
        {
          apply: true,
          files: filesIn(join(this.folder, "daemon")),
          memory: 256 * 1024 * 1024,
          interruption: { stop: never, abandon: never },
          warn: () => {},
          ...options,
        },
      );
    } finally {
      await target.close();
    }
  }

  #sync(declared: Attributes): Omit<Sync, "target"> {
    const options = csv.options.parse({ users: { file: "people.csv", id: "key" } });
    const users = {
      name: "entry.login",
      displayName: 'entry.login + " of us"',
      title: "entry.title",
      "name.givenName": "entry.login",
      "name.familyName": '"Us"',
      emails: '[entry.login + "@example.com"]',
      groups: 'has(entry.teams) ? entry.teams.split(";") : []',
    };
    return {
      name: "staff",
      sources: [{ name: "company", source: csv.open(options, { name: "company", folder: this.folder }) }],
      rules: compileRules({ users, groupsFromRules: {} }, undefined, undefined, undefined, undefined, declared),
      place: "app",
      protection: { manage: "owned", makesGroups: true, ...this.#protect, ignoresCase: true },
      departures: {
        after: 0,
        ...(this.#suspends && { suspend: 0, never: ["user"] }),
        renames: "inPlace",
        reusedNames: "hold",
        administrators: [],
      },
      causes: false,
      drift: { policy: "revert", ignore: [] },
      keepManual: [],
      settings: {},
      limits: { sources: {}, floor: 1_000, action: "hold", deletes: { percent: 100, per: "run" } },
    };
  }

  close(): Promise<void> {
    return rm(this.folder, { recursive: true, force: true });
  }
}

/** What an application should hold: by name, the title and the teams. */
export type Wanted = Readonly<
  Record<string, { readonly title: string | undefined; readonly teams: readonly string[] }>
>;

/** What an application holds of the users who may sign in. */
export function heldBy(application: ScimApplication): Wanted {
  const teams = new Map<string, string[]>();
  for (const [id, members] of application.members)
    for (const member of members)
      teams.set(member, [...(teams.get(member) ?? []), String(application.groups.get(id)?.["displayName"])]);
  return Object.fromEntries(
    [...application.users].flatMap(([id, { userName, title, active }]) =>
      active === false
        ? []
        : [[String(userName), { title: title as string | undefined, teams: (teams.get(id) ?? []).sort() }]],
    ),
  );
}
