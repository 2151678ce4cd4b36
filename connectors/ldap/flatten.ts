import type { Kind } from "#principals/principal.ts";
import { dnKeys } from "./dn.ts";
import { searchEverywhere } from "./elsewhere.ts";
import { type Nesting, nestingBuilder } from "./nesting.ts";
import { restOf } from "./ranges.ts";
import { dnOf, isMembers, type Reader, recordOf, referenceOf, referencesIn } from "./records.ts";
import { partOf, queryOf, selectionOf } from "./selection.ts";
import type { Session } from "./session.ts";
import { turns } from "./turns.ts";

const kind: Kind = "group";

/**
 * Which groups are in which: read twice before anything else, since only then it is known which members are groups.
 * Holds the names of groups, and nothing of users.
 */
export async function readNesting(session: Session, warn: (message: string) => void): Promise<Nesting> {
  const { options } = session;
  const dnKey = dnKeys();
  const builder = nestingBuilder();
  const others = turns();
  const bases = partOf(kind, options).base;
  for (const base of bases) {
    for await (const { entries } of searchEverywhere(session, queryOf(kind, options, base, ["1.1"]))) {
      for (const message of entries) builder.group(dnKey(dnOf(message)));
    }
  }
  const selection = selectionOf(kind, options, { users: [], groups: [] });
  const reader: Reader = { kind, selection, dnKey, options, warn: () => {} };
  for (const base of bases) {
    for await (const batch of searchEverywhere(session, queryOf(kind, options, base, selection.request))) {
      for (const message of batch.entries) {
        const found = recordOf(message, reader);
        const { entry, lists, rest } = found;
        const own = entry.keys[0] ?? "";
        for (const parent of entry.memberOf) builder.add(own, parent);
        for (const list of lists) {
          for (const references of referencesIn(message, list, reader, 1_000)) {
            for (const { key } of references) builder.add(key, own);
            await others();
          }
        }
        for (const one of rest) {
          for await (const values of restOf(batch.session, found, one, reader)) {
            for (const value of values) {
              if (isMembers(one.use)) builder.add(referenceOf(one.use, value, dnKey).key, own);
              else builder.add(own, dnKey(value));
            }
          }
        }
      }
    }
  }
  return builder.build(warn);
}
