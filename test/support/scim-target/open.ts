import scim from "#connectors/scim/target/index.ts";
import type { Kind, ObjectChange, ObjectTarget, RemoteObject } from "#connector.ts";
import type { ScimApplication } from "./server.ts";

/** A target for a server of the tests. */
export function openScim(
  { url, token }: Pick<ScimApplication, "url" | "token">,
  options: Readonly<Record<string, unknown>> = {},
): ObjectTarget {
  return scim.open(scim.options.parse({ url, token, ...options }), { name: "app", folder: "/" });
}

/** What a read of a target delivers. */
export interface Contents {
  readonly users: ReadonlyMap<string, RemoteObject>;
  readonly groups: ReadonlyMap<string, RemoteObject>;
  /** By the name of the group, the names of members, sorted. */
  readonly members: Readonly<Record<string, readonly string[]>>;
  readonly warnings: readonly string[];
}

const signal = new AbortController().signal;

/** Reads a target. Objects are by their names. */
export async function contentsOf(target: ObjectTarget): Promise<Contents> {
  const byId = new Map<string, RemoteObject>();
  const pairs: [group: string, member: string][] = [];
  const warnings: string[] = [];
  for await (const batch of target.read({ signal, warn: (message) => warnings.push(message) }))
    for (const record of batch) {
      if (record.kind === "membership") pairs.push([record.group, record.member.id]);
      else byId.set(record.id, record);
    }
  const named = (kind: Kind) =>
    new Map([...byId.values()].filter((each) => each.kind === kind).map((each) => [each.name, each]));
  const members: Record<string, string[]> = {};
  for (const [group, member] of pairs)
    (members[byId.get(group)?.name ?? group] ??= []).push(byId.get(member)?.name ?? member);
  for (const list of Object.values(members)) list.sort();
  return { users: named("user"), groups: named("group"), members, warnings };
}

/** Writes one change. */
export function write(target: ObjectTarget, change: ObjectChange): Promise<RemoteObject | undefined> {
  return target.write(change, signal);
}

/** Changes some attributes of an object. Rules give the others too, but for `mail` beside `emails` where one of them is not said. */
export function update(
  target: ObjectTarget,
  { kind, id, name, version, attributes: before }: RemoteObject,
  attributes: Extract<ObjectChange, { action: "update" }>["attributes"],
): Promise<RemoteObject | undefined> {
  const { mail, emails, ...others } = before;
  const addresses = {
    ...(attributes["emails"] === undefined && { mail }),
    ...(attributes["mail"] === undefined && { emails }),
  };
  const all = Object.entries({ ...others, ...addresses, ...attributes });
  const whole = Object.fromEntries(
    all.flatMap(([key, value]) => (value === null || value === undefined ? [] : [[key, value]])),
  );
  return write(target, { action: "update", kind, id, name, version, attributes, whole });
}
