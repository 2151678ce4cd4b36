import { compileRules } from "#principals/compile.ts";
import type { Verdict } from "#principals/judge.ts";
import type { Entry, MemberReference, SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import type { Known } from "./scope-model.ts";

interface Judged {
  readonly source: string;
  readonly entry: Entry;
  readonly verdict: Exclude<Verdict, { verdict: "excluded" }>;
}

/** What assembly should come to, in the plainest way: maps of everything, loops over everything. */
export interface Expected {
  /** `kind name source id`, and the groups. */
  readonly principals: Record<string, readonly string[]>;
  /** `kind name source id`. */
  readonly quarantined: readonly string[];
  readonly descriptions: Record<string, string | null>;
  readonly excluded: number;
  readonly unresolved: number;
}

/** @param known what is known about the groups of entries, where rules ask */
export function model(
  sources: Readonly<Record<string, readonly SourceRecord[]>>,
  rules: Rules,
  known?: Known,
): Expected {
  const compiled = compileRules(rules);
  const judged: Judged[] = [];
  const unknown = new Set<Entry>();
  let excluded = 0;
  for (const [source, records] of Object.entries(sources)) {
    for (const entry of records) {
      if (entry.kind === "membership") continue;
      const judgedBy = compiled.judge(entry, known?.groups.get(entry));
      const says = known?.says.get(entry);
      const verdict = says === "out" ? ({ verdict: "excluded" } as const) : judgedBy;
      if (says === "unknown") unknown.add(entry);
      if (verdict.verdict === "excluded") excluded += 1;
      else judged.push({ source, entry, verdict });
    }
  }
  const held = new Set(judged.filter(({ entry, verdict }) => verdict.verdict === "quarantined" || unknown.has(entry)));
  const holdShared = (identity: (each: Judged) => string | undefined): void => {
    for (const each of judged) {
      const mine = identity(each);
      if (mine !== undefined && judged.some((other) => other !== each && identity(other) === mine)) held.add(each);
    }
  };
  holdShared(({ source, entry }) => JSON.stringify([source, entry.kind, entry.id.normalize("NFC")]));
  holdShared(({ entry, verdict }) => verdict.name && JSON.stringify([entry.kind, verdict.name]));

  let unresolved = 0;
  const ambiguous: Judged[] = [];
  const links: (readonly [member: Judged, group: Judged])[] = [];
  for (const [source, records] of Object.entries(rules.groups === undefined ? {} : sources)) {
    const owners = ({ kind, key }: MemberReference): Judged[] | undefined => {
      const having = (k: Entry["kind"]): boolean =>
        records.some((r) => r.kind === k && r.keys.some((each) => each.normalize("NFC") === key.normalize("NFC")));
      const chosen = kind ?? (having("user") ? "user" : "group");
      if (!having(chosen)) return undefined;
      return judged.filter(
        (each) =>
          each.source === source &&
          each.entry.kind === chosen &&
          each.entry.keys.some((own) => own.normalize("NFC") === key.normalize("NFC")),
      );
    };
    const only = (reference: MemberReference): Judged | undefined => {
      const found = owners(reference) ?? [];
      if (found.length > 1) ambiguous.push(...found);
      return found.length === 1 ? found[0] : undefined;
    };
    const connect = (member: Judged | MemberReference, group: Judged | MemberReference): void => {
      const to = "entry" in group ? group : only(group);
      const from = to === undefined ? undefined : "entry" in member ? member : only(member);
      if (to !== undefined && from !== undefined) links.push([from, to]);
      else unresolved += 1;
    };
    for (const record of records) {
      if (record.kind === "membership") {
        connect(record.member, { kind: "group", key: record.group });
        continue;
      }
      const self = judged.find(
        ({ entry, verdict }) => entry === record && verdict.verdict === "included" && !unknown.has(entry),
      );
      if (self === undefined) continue;
      for (const key of record.memberOf) connect(self, { kind: "group", key });
      if (record.kind === "group") for (const member of record.members) connect(member, self);
    }
  }
  // Where no rule asks for groups, and none are made, references are of no use.
  for (const [source, records] of Object.entries(compiled.groupQuestions === undefined ? {} : sources))
    for (const key of new Set(records.flatMap((record) => (record.kind === "user" ? record.keys : [])))) {
      const found = judged.filter(
        ({ source: from, entry }) =>
          from === source && entry.kind === "user" && known?.shared.get(entry)?.has(key.normalize("NFC")) === true,
      );
      if (found.length > 1) ambiguous.push(...found);
    }
  for (const each of ambiguous) held.add(each);

  const heldGroupNames = new Set(
    [...held].filter(({ entry }) => entry.kind === "group").map(({ verdict }) => verdict.name),
  );
  const principals: Record<string, readonly string[]> = {};
  const descriptions: Record<string, string | null> = {};
  for (const each of judged) {
    if (held.has(each) || each.verdict.verdict !== "included") continue;
    const named = each.verdict.groups.filter((name) => !heldGroupNames.has(name));
    const linked = links.filter(([member, group]) => member === each && !held.has(group));
    const names = new Set([...named, ...linked.map(([, group]) => group.verdict.name ?? "")]);
    principals[label(each)] = [...names].sort();
    descriptions[label(each)] = (each.verdict.attributes["description"] ?? null) as string | null;
  }
  return { principals, descriptions, quarantined: [...held].map(label).sort(), excluded, unresolved };
}

function label({ source, entry, verdict }: Judged): string {
  return `${entry.kind} ${verdict.name ?? "?"} ${source} ${entry.id.normalize("NFC")}`;
}
