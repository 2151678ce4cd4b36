import { IncompleteReadError } from "#errors.ts";
import { partOf, type Reader, type Rest } from "./records.ts";
import { lookUp } from "./search.ts";
import type { Session } from "./session.ts";

/**
 * The values of an attribute that did not fit into the entry, part by part: Active Directory sends at most 1500 (or 5000)
 * at a time.
 * @throws {IncompleteReadError} when the parts do not follow one another to the end
 */
export async function* restOf(session: Session, dn: string, rest: Rest, reader: Reader): AsyncGenerator<string[]> {
  const { name } = rest.use;
  for (let next: number | undefined = rest.next; next !== undefined;) {
    const what = `values of ${name} of ${dn} from number ${next}`;
    const attributes = [`${name};range=${next}-*`];
    const [message] = await lookUp(session, { base: dn, scope: "base", filter: "(objectClass=*)", attributes, what });
    const part = message === undefined ? undefined : partOf(message, name, reader);
    const range = part?.use.range;
    if (part === undefined || range?.from !== next || (range.next !== undefined && range.next <= next)) {
      throw new IncompleteReadError(`${session.place}: the ${what} did not arrive; was the entry changed meanwhile?`);
    }
    yield part.values;
    next = range.next;
  }
}
