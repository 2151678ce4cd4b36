import { IncompleteReadError } from "#errors.ts";
import { type EntryRead, partOf, type Reader, type Rest } from "./records.ts";
import { lookUp } from "./search.ts";
import { revision as revisionName } from "./selection.ts";
import type { Session } from "./session.ts";

/**
 * The values of an attribute that did not fit into the entry, part by part: Active Directory sends at most 1500 (or 5000)
 * at a time.
 * @throws {IncompleteReadError} when the parts do not follow one another to the end, or the entry changes between them
 */
export async function* restOf(
  session: Session,
  { entry, revision }: Pick<EntryRead, "entry" | "revision">,
  rest: Rest,
  reader: Reader,
): AsyncGenerator<readonly string[]> {
  const dn = entry.origin;
  const { name } = rest.use;
  for (let next: number | undefined = rest.next; next !== undefined;) {
    const what = `values of ${name} of ${dn} from number ${next}`;
    const attributes = [`${name};range=${next}-*`, revisionName];
    const [message] = await lookUp(session, { base: dn, scope: "base", filter: "(objectClass=*)", attributes, what });
    const part = message === undefined ? undefined : partOf(message, name, reader);
    const range = part?.use.range;
    const follows = range?.from === next && (range.next === undefined || range.next > next);
    if (part === undefined || !follows || part.revision !== revision) {
      throw new IncompleteReadError(`${session.place}: the ${what}: the entry changed while it was read; try again`);
    }
    yield part.values;
    next = range.next;
  }
}
