import { mkdtemp, readdir, readFile, readlink, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import type { Company } from "./company.ts";
import type { AttributeNames } from "./view.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company as CSV files. */
export interface CsvProvision extends Provision {
  /** The path of one of the files. */
  readonly path: (part: Part) => string;
  /** Rewrites the text of a file in place. */
  readonly edit: (part: Part, change: (text: string) => string) => Promise<void>;
}

export type Part = "users" | "groups" | "memberships";

/** One of the many ways to write a company down. */
export interface Format {
  readonly name: string;
  readonly attributes: AttributeNames;
  /** The rows of each file, the header first; without memberships there is no such file. */
  rows(company: Company): Partial<Record<Part, readonly (readonly string[])[]>>;
  /** The options beside `file` and `minRows`. */
  readonly options: Readonly<Record<Part, object>> & { readonly source: object };
  readonly delimiter: string;
  readonly newline: string;
  readonly extension: string;
  encode(text: string): Buffer;
  decode(bytes: Buffer): string;
}

/** In every row of the users, to be sure that no error shows what a file holds. */
const password = "hunter2-is-secret";

export function csvMedium(
  format: Format,
  faults: Medium<CsvProvision>["faults"],
  large: Medium["large"],
): Medium<CsvProvision> {
  return {
    name: format.name,
    module: new URL("../../../connectors/csv/index.ts", import.meta.url).href,
    attributes: format.attributes,
    faults,
    versions: true,
    large,
    async provision(company) {
      const folder = await realpath(await mkdtemp(join(tmpdir(), "rollcall-csv-")));
      const path = (part: Part): string => join(folder, `${part}${format.extension}`);
      const write = async (content: Company): Promise<void> => {
        for (const [part, rows] of Object.entries(format.rows(content))) {
          const lines = rows.map((row, index) => {
            const cells = part === "users" ? [...row, index === 0 ? "password" : password] : row;
            return cells.map((cell) => quoted(cell, format.delimiter)).join(format.delimiter) + format.newline;
          });
          await writeFile(path(part as Part), format.encode(lines.join("")));
        }
      };
      await write(company);
      const { source, ...parts } = format.options;
      return {
        folder,
        secrets: [password],
        options: {
          ...source,
          ...Object.fromEntries(
            Object.entries(format.rows(company)).map(([part, rows]) => [
              part,
              { file: `${part}${format.extension}`, minRows: rows.length - 1, ...parts[part as Part] },
            ]),
          ),
        },
        path,
        async edit(part, change) {
          await writeFile(path(part), format.encode(change(format.decode(await readFile(path(part))))));
        },
        rename: (number, login) =>
          write({
            ...company,
            users: company.users.map((user) =>
              user.number === number ? { ...user, login, displayName: login } : user,
            ),
          }),
        held: () => openFilesIn(folder),
        dispose: () => rm(folder, { recursive: true }),
      };
    },
  };
}

function quoted(cell: string, delimiter: string): string {
  return cell.includes(delimiter) || /["\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

export async function openFilesIn(folder: string): Promise<number> {
  const numbers = await readdir("/proc/self/fd");
  const targets = await Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => "")));
  return targets.filter((target) => target.startsWith(folder)).length;
}

const plainText = {
  encode: (text: string) => Buffer.from(text),
  decode: (bytes: Buffer) => bytes.toString(),
};

const names: AttributeNames = {
  login: "login",
  displayName: "display name",
  mail: "mail",
  name: "name",
  description: "description",
};

/** Memberships in a column of the members, by numbers; everything else left to its default. */
export const memberOfColumns: Format = {
  name: "csv, memberships in a column of users and groups",
  attributes: names,
  rows({ users, groups }) {
    const numbers = new Map(groups.map((group) => [group.name, group.number]));
    const numbersOf = (of: readonly string[]): string => of.map((name) => numbers.get(name)).join("; ");
    return {
      users: [
        ["number", "login", "display name", "mail", "groups"],
        ...users.map((user) => [user.number, user.login, user.displayName, user.mail ?? "", numbersOf(user.groups)]),
      ],
      groups: [
        ["number", "name", "description", "groups"],
        ...groups.map((group) => [group.number, group.name, group.description ?? "", numbersOf(group.groups)]),
      ],
    };
  },
  options: {
    source: {},
    users: { id: "number", memberOf: { column: "groups" } },
    groups: { id: "number", memberOf: { column: "groups" } },
    memberships: {},
  },
  delimiter: ",",
  newline: "\n",
  extension: ".csv",
  ...plainText,
};

/** Memberships in a column of the groups, by login and name, which may be of either kind. */
export const membersColumn: Format = {
  name: "csv, memberships in a column of groups, latin line ends and a byte order mark",
  attributes: names,
  rows({ users, groups }) {
    const members = new Map<string, string[]>(groups.map((group) => [group.name, []]));
    for (const user of users) for (const name of user.groups) members.get(name)?.push(user.login);
    for (const group of groups) for (const name of group.groups) members.get(name)?.push(group.name);
    return {
      users: [
        ["login", "number", "mail", "display name"],
        ...users.map((user) => [user.login, user.number, user.mail ?? "", user.displayName]),
      ],
      groups: [
        ["name", "number", "members", "description"],
        ...groups.map((group) => [
          group.name,
          group.number,
          (members.get(group.name) ?? []).join("|"),
          group.description ?? "",
        ]),
      ],
    };
  },
  options: {
    source: {},
    users: { id: "number", keys: ["login"] },
    groups: { id: "number", keys: ["name"], members: { column: "members", separator: "|" } },
    memberships: {},
  },
  delimiter: ",",
  newline: "\r\n",
  extension: ".csv",
  encode: (text) => Buffer.from(`\u{FEFF}${text}`),
  decode: (bytes) => bytes.subarray(3).toString(),
};

/** Memberships in a file of pairs, by numbers that users and groups share; attributes renamed, dialect not the default. */
export const pairs: Format = {
  name: "csv, memberships in a file of pairs, gzip, UTF-16, semicolons",
  attributes: { login: "uid", displayName: "cn", mail: "mail", name: "cn", description: "about" },
  rows({ users, groups }) {
    const numbers = new Map(groups.map((group) => [group.name, group.number]));
    const numbersOf = (of: readonly string[]): readonly string[] => of.map((name) => numbers.get(name) ?? "");
    return {
      users: [
        ["Nr.", "Anmeldename", "Name", "E-Mail"],
        ...users.map((user) => [user.number, user.login, user.displayName, user.mail ?? ""]),
      ],
      groups: [
        ["Nr.", "Bezeichnung", "Zweck"],
        ...groups.map((group) => [group.number, group.name, group.description ?? ""]),
      ],
      memberships: [
        ["Mitglied", "Art", "Gruppe"],
        ...users.flatMap((user) => numbersOf(user.groups).map((group) => [user.number, "Person", group])),
        ...groups.flatMap((group) => numbersOf(group.groups).map((parent) => [group.number, "Gruppe", parent])),
      ],
    };
  },
  options: {
    source: { delimiter: ";", encoding: "utf-16" },
    users: { id: "Nr.", columns: { uid: "Anmeldename", cn: "Name", mail: "E-Mail" } },
    groups: { id: "Nr.", columns: { cn: "Bezeichnung", about: "Zweck" } },
    memberships: { group: "Gruppe", member: "Mitglied", kind: { column: "Art", user: "Person", group: "Gruppe" } },
  },
  delimiter: ";",
  newline: "\n",
  extension: ".csv.gz",
  encode: (text) => gzipSync(Buffer.from(`\u{FEFF}${text}`, "utf16le")),
  decode: (bytes) => gunzipSync(bytes).subarray(2).toString("utf16le"),
};
