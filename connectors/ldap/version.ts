import { createHash } from "node:crypto";
import { Ber, BerWriter, Control, SearchRequest } from "ldapts";
import type { OpenContext, ReadContext } from "#connector.ts";
import { RollcallError } from "#errors.ts";
import { dnKey, isWithin } from "./dn.ts";
import { codes } from "./errors.ts";
import { parseFilter } from "./filter.ts";
import type { Options } from "./options.ts";
import { readOne, readRootDse, type RootDse } from "./rootdse.ts";
import { openSession, type Session } from "./session.ts";

/**
 * What changes whenever something in the directory does: OpenLDAP's `contextCSN`, Active Directory's
 * `highestCommittedUSN`. It is another one for another server, another login and other options. That a server's own
 * configuration was changed (who may read what) does not show in it.
 * @returns undefined when the server does not tell, or not for all that is read
 * @throws what `openSession` throws
 */
export async function version(options: Options, open: OpenContext, context: ReadContext): Promise<string | undefined> {
  // What other servers hold changes without this one noticing.
  if (options.referrals.follow.length > 0) return undefined;
  const session = await openSession(options, open, context);
  try {
    const server = await readRootDse(session);
    const state = (await stateOfActiveDirectory(session, server)) ?? (await stateOfOpenLdap(session, server));
    if (state === undefined) return undefined;
    const { bind: _, ...rest } = options;
    const login = options.bind === undefined ? "" : { ...options.bind, password: undefined };
    const asked = JSON.stringify([rest, login, context.attributes ?? null, session.url.text]);
    return `${state} ${createHash("sha256").update(asked).digest("hex").slice(0, 16)}`;
  } finally {
    await session.close();
  }
}

/** Numbers of changes are a server's own; they start again when it is restored from a backup, as another invocation. */
async function stateOfActiveDirectory(session: Session, server: RootDse): Promise<string | undefined> {
  const number = server.get("highestcommittedusn")?.[0];
  const service = server.get("dsservicename")?.[0];
  const host = server.get("dnshostname")?.[0];
  if (number === undefined || service === undefined || host === undefined) return undefined;
  const invocation = await valuesAt(session, service, "invocationId");
  if (invocation === undefined) return undefined;
  return `${host} ${invocation.map((id) => Buffer.from(id).toString("hex")).join()} ${number}`;
}

/** The last change of each server that may write, as the database knows it in which everything is that is read. */
async function stateOfOpenLdap(session: Session, server: RootDse): Promise<string | undefined> {
  const { users, groups } = session.options;
  const bases = [...users.base, ...(groups?.base ?? [])].map(dnKey);
  const contexts = (server.get("namingcontexts") ?? []).filter((name) => name !== "");
  const containing = contexts.filter((name) => bases.every((base) => isWithin(base, dnKey(name))));
  const [own] = containing.sort((a, b) => dnKey(b).length - dnKey(a).length);
  // A database within the one in question has changes of its own.
  const isWhole = own !== undefined && contexts.every((name) => name === own || !isWithin(dnKey(name), dnKey(own)));
  if (!isWhole) return undefined;
  const isKept = await session.connection.ask(syncRequest(own));
  if (isKept.code !== codes.success) return undefined;
  const numbers = await valuesAt(session, own, "contextCSN");
  return numbers?.toSorted().join(" ");
}

/**
 * A request that only a database with the `syncprov` overlay fulfils: another one may have a `contextCSN` all the same,
 * from a backup, that nobody keeps.
 */
function syncRequest(base: string): SearchRequest {
  return new SearchRequest({
    messageId: 0,
    baseDN: base,
    scope: "base",
    filter: parseFilter("(!(objectClass=*))"),
    attributes: ["1.1"],
    controls: [new SyncControl()],
  });
}

/** Synchronisation (RFC 4533), once and without what is known already. */
class SyncControl extends Control {
  constructor() {
    super("1.3.6.1.4.1.4203.1.9.1.1", { critical: true });
  }

  override writeControl(writer: BerWriter): void {
    const value = new BerWriter();
    value.startSequence();
    value.writeEnumeration(1);
    value.endSequence();
    writer.writeBuffer(value.buffer, Ber.OctetString);
  }
}

async function valuesAt(session: Session, dn: string, attribute: string): Promise<readonly string[] | undefined> {
  try {
    const entry = await readOne(session, dn, [attribute], `${attribute} of ${dn}`);
    const values = entry?.get(attribute.toLowerCase());
    return values === undefined || values.length === 0 ? undefined : values;
  } catch (error) {
    session.origin.context.signal.throwIfAborted();
    // Who may not see it reads everything each time.
    if (error instanceof RollcallError && error.advice === "fix") return undefined;
    throw error;
  }
}
