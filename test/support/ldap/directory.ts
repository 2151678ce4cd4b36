import { createServer, type Socket } from "node:net";
import { dnKey, isWithin } from "#principals/dn.ts";
import { listen, stop, track } from "../scripted-server.ts";
import {
  encode,
  entry as entryBody,
  type LdapMessage,
  messagesOf,
  operation,
  page,
  pageOf,
  reference,
  result,
  resultCode,
} from "./message.ts";
import { parseSearch, type Search } from "./search.ts";

export interface DirectoryEntry {
  readonly dn: string;
  readonly attributes: Readonly<Record<string, readonly (string | Buffer)[]>>;
}

/** What a search finds, or what it is answered with instead. */
export interface Answer {
  readonly entries: readonly DirectoryEntry[];
  readonly references?: readonly string[] | undefined;
  /** Default: success. */
  readonly code?: number | undefined;
}

/**
 * An LDAP server that is easily satisfied: it answers with success and nothing where the base is not there (as 389
 * Directory Server does to a paged search), pages by offset, and knows attributes in lower case only. Tests change what
 * it holds and what it answers.
 */
export interface Directory extends AsyncDisposable {
  readonly url: string;
  entries: DirectoryEntry[];
  /** Parts that are offline: nothing at or below these is found, and nothing is said. */
  offline: string[];
  /** Changes the answer to a search. */
  answer: ((search: Search, found: Answer) => Answer) | undefined;
  /** The searches since it was started, those for pages included. */
  readonly searches: Search[];
}

export async function startDirectory(
  entries: readonly DirectoryEntry[] = [],
  rootDse: DirectoryEntry["attributes"] = {},
): Promise<Directory> {
  const server = createServer((socket) => void converse(socket).catch(() => socket.destroy()));
  const open = track(server);

  const find = (search: Search): Answer => {
    if (search.base === "") return { entries: [{ dn: "", attributes: rootDse }] };
    const { offline, entries: all } = directory;
    const there = all.filter(({ dn }) => !offline.some((part) => isWithin(dnKey(dn), dnKey(part))));
    if (!there.some(({ dn }) => dnKey(dn) === dnKey(search.base))) return { entries: [] };
    return { entries: there.filter((each) => inScope(each, search) && search.matches(each.attributes)) };
  };

  const converse = async (socket: Socket): Promise<void> => {
    for await (const message of messagesOf(socket)) {
      if (message.operation === operation.searchRequest) {
        socket.write(Buffer.concat([...answersTo(message)]));
      } else if (message.operation === operation.bindRequest) {
        socket.write(encode(message.id, operation.bindResponse, result(resultCode.success)));
      } else if (message.operation === operation.extendedRequest) {
        socket.write(encode(message.id, operation.extendedResponse, result(resultCode.protocolError)));
      } else socket.end();
    }
  };

  function* answersTo(message: LdapMessage): Generator<Buffer> {
    const search = parseSearch(message.body);
    directory.searches.push(search);
    const found = find(search);
    const { entries: all, references = [], code = resultCode.success } = directory.answer?.(search, found) ?? found;
    const paged = pageOf(message);
    const from = Number(paged?.cookie.toString() ?? 0);
    const to = from + (paged?.size ?? all.length);
    for (const { dn, attributes } of all.slice(from, to)) {
      yield encode(message.id, operation.searchResultEntry, entryBody(dn, selected(attributes, search.attributes)));
    }
    const isLast = to >= all.length;
    if (isLast && code !== resultCode.referral) {
      for (const url of references) yield encode(message.id, operation.searchResultReference, reference([url]));
    }
    const done = result(code, "", code === resultCode.referral ? references : []);
    const controls = paged === undefined ? [] : [page(0, isLast ? "" : String(to))];
    yield encode(message.id, operation.searchResultDone, done, controls);
  }

  const port = await listen(server);
  const directory: Directory = {
    url: `ldap://127.0.0.1:${port}`,
    entries: [...entries],
    offline: [],
    answer: undefined,
    searches: [],
    [Symbol.asyncDispose]: () => stop(server, open),
  };
  return directory;
}

function inScope({ dn }: DirectoryEntry, { base, scope }: Search): boolean {
  const [own, outer] = [dnKey(dn), dnKey(base)];
  if (scope === "base" || own === outer) return own === outer && scope !== "one";
  return isWithin(own, outer) && (scope === "sub" || !own.slice(0, -outer.length - 1).includes(","));
}

function* selected(
  attributes: DirectoryEntry["attributes"],
  wanted: readonly string[],
): Generator<[string, readonly (string | Buffer)[]]> {
  for (const [name, values] of Object.entries(attributes)) {
    if (wanted.includes("*") || wanted.includes(name.toLowerCase())) yield [name, values];
  }
}

/** A container. */
export function unit(dn: string): DirectoryEntry {
  return { dn, attributes: { objectClass: ["organizationalUnit"], entryUUID: [uuid(`unit ${dn}`)] } };
}

/** A person of that name, in a container. */
export function person(uid: string, container: string, attributes: DirectoryEntry["attributes"] = {}): DirectoryEntry {
  const common = { objectClass: ["inetOrgPerson"], uid: [uid], cn: [uid], entryUUID: [uuid(uid)] };
  return { dn: `uid=${uid},${container}`, attributes: { ...common, ...attributes } };
}

export function groupOf(cn: string, container: string, member: readonly string[]): DirectoryEntry {
  const attributes = { objectClass: ["groupOfNames"], cn: [cn], entryUUID: [uuid(`group ${cn}`)], member };
  return { dn: `cn=${cn},${container}`, attributes };
}

/** An id that follows from the text. */
export function uuid(text: string): string {
  const hex = Buffer.from(text).toString("hex").padStart(32, "0").slice(-32);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
