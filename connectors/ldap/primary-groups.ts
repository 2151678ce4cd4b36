import { dnKey } from "./dn.ts";
import type { Options } from "./options.ts";
import { dnOf } from "./records.ts";
import { lookUp } from "./search.ts";
import type { Session } from "./session.ts";
import { sidInFilter } from "./values.ts";

/**
 * The groups that Active Directory's users name as their primary one, which do not list them as members. A company has a
 * handful; each is looked for once.
 */
export interface PrimaryGroups {
  /** The key of the group; undefined when it is not among the source's groups. */
  keyOf(session: Session, sid: string): Promise<string | undefined>;
}

export function primaryGroups(options: Options, warn: (message: string) => void): PrimaryGroups {
  const known = new Map<string, string | undefined>();
  const find = async (session: Session, sid: string): Promise<string | undefined> => {
    const { groups } = options;
    if (groups === undefined) return undefined;
    for (const base of groups.base) {
      const [message] = await lookUp(session, {
        base,
        scope: groups.scope,
        filter: `(&${groups.filter}(objectSid=${sidInFilter(sid)}))`,
        attributes: ["1.1"],
        what: `the primary group ${sid} below ${base}`,
      });
      if (message !== undefined) return dnKey(dnOf(message));
    }
    return undefined;
  };
  return {
    keyOf: async (session, sid) => {
      if (known.has(sid)) return known.get(sid);
      const found = await find(session, sid);
      known.set(sid, found);
      if (found === undefined) {
        warn(`the primary group ${sid} of users is not among the groups that are read; being in it does not count`);
      }
      return found;
    },
  };
}
