import { compileRules } from "#principals/compile.ts";
import type { Entry, SourceGroups, SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";

/** What is known about the groups of entries, in the plainest way: maps of everything, loops over everything. */
export interface Known {
  /** Patterns, by list, that no group matches. */
  readonly unmatched: readonly string[];
  /** What the lists say of an entry. */
  readonly says: ReadonlyMap<Entry, "in" | "out" | "unknown">;
  readonly groups: ReadonlyMap<Entry, SourceGroups>;
  /** By user, the keys that a reference uses and that others share. */
  readonly shared: ReadonlyMap<Entry, ReadonlySet<string>>;
}

/** A group of a source; `entry` is absent where an entry only mentions it. */
interface Node {
  readonly entry?: Entry;
  readonly name: string | undefined;
}

const same = (one: string, other: string): boolean => one.normalize("NFC") === other.normalize("NFC");

export function knownGroups(sources: Readonly<Record<string, readonly SourceRecord[]>>, rules: Rules): Known {
  const compiled = compileRules(rules);
  const nodes: Node[] = [];
  const edges: { readonly member: Entry; readonly group: Node; readonly certain: boolean }[] = [];
  const entries: Entry[] = [];
  const shared = new Map<Entry, Set<string>>();
  for (const records of Object.values(sources)) {
    const own = records.filter((record) => record.kind !== "membership");
    entries.push(...own);
    const nodeOf = new Map(
      own.flatMap((entry): [Entry, Node][] =>
        entry.kind === "group" ? [[entry, { entry, name: compiled.sourceName(entry) }]] : [],
      ),
    );
    const mentioned = new Map<string, Node>();
    const holders = (kind: Entry["kind"], key: string): Entry[] =>
      own.filter((entry) => entry.kind === kind && entry.keys.some((each) => same(each, key)));
    const groupsBy = (key: string): Node[] => {
      const found = holders("group", key).flatMap((entry) => nodeOf.get(entry) ?? []);
      if (found.length > 0) return found;
      const name = key.normalize("NFC");
      const node = mentioned.get(name) ?? { name };
      mentioned.set(name, node);
      return [node];
    };
    const membersBy = ({ kind, key }: { readonly kind?: Entry["kind"] | undefined; readonly key: string }): Entry[] => {
      const users = holders("user", key);
      const chosen = kind ?? (users.length > 0 ? "user" : "group");
      if (chosen === "user" && users.length > 1) {
        const name = key.normalize("NFC");
        for (const each of users) shared.set(each, (shared.get(each) ?? new Set<string>()).add(name));
      }
      return holders(chosen, key);
    };
    const connect = (members: readonly Entry[], groups: readonly Node[]): void => {
      for (const member of members)
        for (const group of groups) {
          const certain = groups.length === 1 && (member.kind === "user" || members.length === 1);
          edges.push({ member, group, certain });
        }
    };
    for (const record of records) {
      if (record.kind === "membership") {
        connect(membersBy(record.member), groupsBy(record.group));
        continue;
      }
      for (const key of record.memberOf) connect([record], groupsBy(key));
      const node = nodeOf.get(record);
      if (node !== undefined) for (const member of record.members) connect(membersBy(member), [node]);
    }
    nodes.push(...nodeOf.values(), ...mentioned.values());
  }

  /** The groups that an entry is in, directly or through others; only by certain memberships, if it is to be certain. */
  const groupsOf = (entry: Entry, nested: boolean, certain: boolean): Set<Node> => {
    const found = new Set<Node>();
    const visit = (member: Entry): void => {
      for (const edge of edges) {
        if (edge.member !== member || (certain && !edge.certain) || found.has(edge.group)) continue;
        found.add(edge.group);
        if (nested && edge.group.entry !== undefined) visit(edge.group.entry);
      }
    };
    visit(entry);
    return found;
  };
  const matches = (pattern: string, name: string): boolean => {
    const [first = "", ...rest] = pattern.normalize("NFC").split("*");
    if (rest.length === 0) return name === first;
    const last = rest.pop() ?? "";
    if (rest.length > 0) throw new Error("the model knows patterns with one * only");
    return name.length >= first.length + last.length && name.startsWith(first) && name.endsWith(last);
  };
  const lists = [
    { kind: "user", patterns: rules.users.onlyMembersOf, members: "in", nested: rules.users.nested === true },
    { kind: "user", patterns: rules.users.notMembersOf, members: "out", nested: rules.users.nested === true },
    { kind: "group", patterns: rules.groups?.onlyBelow, members: "in", nested: true },
    { kind: "group", patterns: rules.groups?.notBelow, members: "out", nested: true },
  ] as const;
  const unmatched = lists.flatMap(({ patterns = [] }) =>
    patterns.filter((pattern) => !nodes.some(({ name }) => name !== undefined && matches(pattern, name))),
  );
  const says = new Map<Entry, "in" | "out" | "unknown">();
  for (const entry of entries) {
    const found = lists.flatMap(({ kind, patterns, members, nested }) => {
      if (patterns === undefined || kind !== entry.kind) return [];
      const isNamed = ({ name }: Node, certain: boolean): boolean =>
        name === undefined ? !certain : patterns.some((pattern) => matches(pattern, name));
      const isMember = (certain: boolean): boolean => {
        const own = nodes.filter((node) => kind === "group" && node.entry === entry);
        return [...groupsOf(entry, nested, certain), ...own].some((node) => isNamed(node, certain));
      };
      if (isMember(true)) return members;
      return isMember(false) ? "unknown" : members === "in" ? "out" : "in";
    });
    const verdicts = new Set<string>(found);
    says.set(entry, verdicts.has("out") ? "out" : verdicts.has("unknown") ? "unknown" : "in");
  }
  const groups = new Map<Entry, SourceGroups>();
  for (const entry of entries) {
    const names = (nested: boolean): string[] | undefined => {
      const certain = groupsOf(entry, nested, true);
      const isKnown = [...groupsOf(entry, nested, false)].every((node) => certain.has(node) && node.name !== undefined);
      return isKnown ? [...new Set([...certain].flatMap(({ name }) => name ?? []))].sort() : undefined;
    };
    groups.set(entry, { direct: names(false), nested: names(true) });
  }
  return { unmatched, says, groups, shared };
}
