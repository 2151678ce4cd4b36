import { IncompleteReadError, RollcallError } from "#errors.ts";
import { readOne } from "./describe.ts";
import type { Memberless } from "./entries.ts";
import type { Session } from "./session.ts";

/**
 * A server whose schema wants members has them for every group: one without any is hidden from this login.
 * @throws {IncompleteReadError} the group has members, which were not sent
 */
export async function assertEmpty(session: Session, { dn, className, attribute }: Memberless): Promise<void> {
  if (!(await wants(session, className, attribute))) return;
  throw new IncompleteReadError(
    `${session.place}: ${dn} shows no ${attribute}, which every ${className} has on this server, so this login may not read it: let it read ${attribute} of all groups, or leave the group out with groups.filter`,
  );
}

/** Whether the server's schema says so; false: it does not, or may not be read. */
async function wants(session: Session, className: string, attribute: string): Promise<boolean> {
  try {
    const own = await readOne(session, "", ["subschemasubentry"], "the place of the server's schema");
    const place = own?.get("subschemasubentry")?.[0];
    if (place === undefined) return false;
    const schema = await readOne(session, place, ["objectclasses"], "the server's schema");
    return (schema?.get("objectclasses") ?? []).some((text) => isRequired(text, className, attribute));
  } catch (error) {
    session.origin.context.signal.throwIfAborted();
    if (error instanceof RollcallError && error.advice === "fix") return false;
    throw error;
  }
}

/** @param text the definition of a class (RFC 4512, 4.1.1): `( 2.5.6.9 NAME 'groupOfNames' … MUST ( member $ cn ) … )` */
export function isRequired(text: string, className: string, attribute: string): boolean {
  const plain = text.replace(/\sDESC\s+'[^']*'/i, "");
  const listIn = (key: string): readonly string[] => {
    const [, several, one = ""] = new RegExp(String.raw`\s${key}\s+(?:\(([^)]*)\)|(\S+))`, "i").exec(plain) ?? [];
    return (several ?? one).toLowerCase().split(/[\s$']+/);
  };
  return listIn("NAME").includes(className.toLowerCase()) && listIn("MUST").includes(attribute.toLowerCase());
}
