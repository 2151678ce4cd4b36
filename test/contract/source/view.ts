import type { Entry, Membership, SourceRecord } from "#connector.ts";
import type { Company } from "./company.ts";

/** The attributes under which a medium shows what the company says. */
export interface AttributeNames {
  readonly login: string;
  readonly displayName: string;
  readonly mail: string;
  readonly name: string;
  readonly description: string;
}

/** A company as lines that can be compared, whatever the source's keys and ids are. */
export interface View {
  readonly users: readonly string[];
  readonly groups: readonly string[];
  /** `user ada in Engineering`. */
  readonly memberships: readonly string[];
}

export function viewOfCompany({ users, groups }: Company): View {
  return {
    users: sorted(users.map((user) => line([user.login, user.displayName, user.mail]))),
    groups: sorted(groups.map((group) => line([group.name, group.description]))),
    memberships: sorted([
      ...users.flatMap((user) => user.groups.map((name) => line(["user", user.login, name]))),
      ...groups.flatMap((group) => group.groups.map((name) => line(["group", group.name, name]))),
    ]),
  };
}

/** Resolves references as assembly does: through the keys, which users and groups have apart. */
export function viewOfRecords(records: readonly SourceRecord[], names: AttributeNames): View {
  const entries = records.filter((record) => record.kind !== "membership");
  const users = entries.filter((entry) => entry.kind === "user");
  const groups = entries.filter((entry) => entry.kind === "group");
  const userByKey = byKey(users, names.login);
  const groupByKey = byKey(groups, names.name);

  const membership = (group: string, member: Membership["member"]): string => {
    const user = member.kind === "group" ? undefined : userByKey.get(member.key);
    const subgroup = member.kind === "user" ? undefined : groupByKey.get(member.key);
    if ((user === undefined) === (subgroup === undefined)) throw new Error(`${member.key} is not one user or group`);
    return line([user === undefined ? "group" : "user", user ?? subgroup, groupByKey.get(group) ?? `? ${group}`]);
  };
  const memberships = records.flatMap((record) => {
    if (record.kind === "membership") return [membership(record.group, record.member)];
    const self = record.keys[0];
    if (self === undefined) throw new Error(`${record.origin} has no key`);
    return [
      ...record.memberOf.map((group) => membership(group, { kind: record.kind, key: self })),
      ...record.members.map((member) => membership(self, member)),
    ];
  });
  return {
    users: sorted(users.map((entry) => attributes(entry, names.login, names.displayName, names.mail))),
    groups: sorted(groups.map((entry) => attributes(entry, names.name, names.description))),
    memberships: sorted([...new Set(memberships)]),
  };
}

function attributes(entry: Entry, ...names: string[]): string {
  return line(names.map((name) => entry.attributes[name]));
}

function byKey(entries: readonly Entry[], name: string): Map<string, string> {
  return new Map(entries.flatMap((entry) => entry.keys.map((key) => [key, String(entry.attributes[name])])));
}

function line(values: readonly unknown[]): string {
  return values.map((value) => (value === undefined ? "unset" : JSON.stringify(value).normalize("NFC"))).join(" ");
}

function sorted(lines: readonly string[]): readonly string[] {
  return [...lines].sort();
}
