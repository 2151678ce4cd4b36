import { createWriteStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { administrator } from "./service.ts";

/** A company in three CSV files. Every row is made when it is written. */
export interface Company {
  /** `[employee, login, display name, mail]` */
  readonly users: Iterable<readonly [id: string, login: string, name: string, mail: string]>;
  readonly groups: Iterable<readonly [id: string, title: string]>;
  readonly memberships: Iterable<readonly [group: string, member: string, kind: "user" | "group"]>;
}

/** Writes the files of a company into a folder, in place of those that are there. */
export async function writeCompany(folder: string, { users, groups, memberships }: Company): Promise<void> {
  await writeRows(join(folder, "users.csv"), ["employee", "login", "display_name", "mail"], users);
  await writeRows(join(folder, "groups.csv"), ["unit", "title"], groups);
  await writeRows(join(folder, "memberships.csv"), ["unit", "member", "kind"], memberships);
}

/**
 * Writes the configuration of a sync without limits, from these files into a service of its own.
 * @param settings further keys of the sync
 * @param others further keys of the configuration
 * @returns its path
 */
export async function configureCompany(
  folder: string,
  settings: Readonly<Record<string, unknown>> = {},
  others: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const file = join(folder, "rollcall.yaml");
  const service = { listen: "127.0.0.1:0", data: "data", administrator };
  // JSON is YAML.
  await writeFile(file, JSON.stringify({ service, ...companySync(settings), ...others }));
  return file;
}

/**
 * The keys of a configuration that sync these files, without limits, into the service of the same file.
 * @param settings further keys of the sync `all`
 */
export function companySync(settings: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, object>> {
  const limits = ["deletes", "updates", "creates", "emptied", "blanked", "membershipsLost", "quarantined"];
  return {
    targets: { here: "embedded" },
    sources: {
      company: {
        connector: "csv",
        users: { file: "users.csv", id: "employee", minRows: 0 },
        groups: { file: "groups.csv", id: "unit", minRows: 0 },
        memberships: { file: "memberships.csv", group: "unit", member: "member", kind: { column: "kind" }, minRows: 0 },
      },
    },
    syncs: {
      all: {
        from: ["company"],
        to: "here",
        limits: Object.fromEntries(limits.map((limit) => [limit, "none"])),
        users: { name: "lower(entry.login)", displayName: "entry.display_name", mail: "entry.mail" },
        groups: { name: "entry.title", displayName: "entry.title" },
        ...settings,
      },
    },
  };
}

/** Values without commas and quotes. */
async function writeRows(file: string, header: readonly string[], rows: Iterable<readonly string[]>): Promise<void> {
  await pipeline(
    Readable.from(
      (function* () {
        let piece = `${header.join(",")}\n`;
        for (const row of rows) {
          piece += `${row.join(",")}\n`;
          if (piece.length < 65_536) continue;
          yield piece;
          piece = "";
        }
        yield piece;
      })(),
    ),
    createWriteStream(file),
  );
}

/** So many rows. */
export function* times<Row>(count: number, row: (index: number) => Row): Iterable<Row> {
  for (let index = 0; index < count; index++) yield row(index);
}

/** What a company can have that is not as in any other. */
export interface Variation {
  readonly mail?: (login: string, index: number) => string;
  readonly title?: (index: number) => string;
}

/** A company with a group for every 50 users, nested ten in one, and up to five memberships a user. */
export function ordinaryCompany(users: number, { mail, title }: Variation = {}): Company {
  const groups = Math.max(10, Math.floor(users / 50));
  const unit = (user: number, nth: number): number => (user * 7 + nth * 13 * (1 + (user % 11))) % groups;
  return {
    users: times(users, (index) => {
      const login = `u${String(index).padStart(7, "0")}`;
      return [`e${index}`, login, `Ada Lovelace ${index}`, mail?.(login, index) ?? `${login}@example.com`] as const;
    }),
    groups: times(groups, (index) => [`g${index}`, title?.(index) ?? `Team ${index}`] as const),
    memberships: (function* () {
      for (let index = 1; index < groups; index++)
        yield [`g${Math.floor((index - 1) / 10)}`, `g${index}`, "group"] as const;
      for (let user = 0; user < users; user++)
        for (const each of new Set([0, 1, 2, 3, 4].map((nth) => unit(user, nth))))
          yield [`g${each}`, `e${user}`, "user"] as const;
    })(),
  };
}
