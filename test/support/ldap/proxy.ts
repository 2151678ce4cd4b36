import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { encode, type LdapMessage, messagesOf, operation, pageOf, result } from "./message.ts";
import { listen, track } from "../scripted-server.ts";

/** What a proxy does to a conversation. It is called for every message and decides which ones to act on. */
export interface LdapFault {
  /** What the client asks, and the number of its search. Answers given here keep the request from the server. */
  readonly request?: (message: LdapMessage, place: Place) => readonly Buffer[] | undefined;
  /** What the server answers: bytes to send instead, or what to do with the connection. */
  readonly response?: (message: LdapMessage, place: Place) => readonly Buffer[] | Strike | undefined;
}

/** A place in a conversation, counted over all connections since the fault was set. */
export interface Place {
  /** 1 for the first search request (each page is one); rootDSE searches, of scope base, are 0. */
  readonly search: number;
  /** 1 for the first entry of this search; in other messages how many there were. */
  readonly entry: number;
}

/** `close`: ends both sides. `reset`: with RST. `stall`: says nothing more. `cut`: half of the message, then the end. */
export type Strike = "close" | "reset" | "stall" | "cut";

/** An LDAP proxy between a connector and a server. */
export interface LdapProxy extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Replaces the current fault; undefined passes everything on. */
  set(fault: LdapFault | undefined): void;
  /** How many searches there were since the fault was set. */
  readonly searches: number;
  /** How many connections there were since it was started. */
  readonly connections: number;
}

export async function startLdapProxy(target: number): Promise<LdapProxy> {
  let fault: LdapFault | undefined;
  let searches = 0;
  let connections = 0;
  const server = createServer({ allowHalfOpen: false }, (client) => {
    connections++;
    void converse(client);
  });
  const open = track(server);

  const converse = async (client: Socket): Promise<void> => {
    const upstream = connect(target, "127.0.0.1");
    upstream.on("error", () => client.destroy());
    client.once("close", () => upstream.destroy());
    upstream.once("close", () => client.end());
    const places = new Map<number, { search: number; entry: number }>();
    let stalled = false;

    const fromClient = async (): Promise<void> => {
      for await (const message of messagesOf(client)) {
        if (message.operation === operation.searchRequest) {
          places.set(message.id, { search: isBase(message) ? 0 : ++searches, entry: 0 });
        }
        const place = places.get(message.id) ?? { search: 0, entry: 0 };
        const answers = fault?.request?.(message, place);
        if (answers === undefined) upstream.write(message.bytes);
        else for (const bytes of answers) client.write(bytes);
      }
      upstream.end();
    };
    const fromServer = async (): Promise<void> => {
      for await (const message of messagesOf(upstream)) {
        if (stalled) continue;
        const place = places.get(message.id) ?? { search: 0, entry: 0 };
        if (message.operation === operation.searchResultEntry) place.entry++;
        const outcome = fault?.response?.(message, place) ?? [message.bytes];
        if (outcome === "stall") stalled = true;
        else if (outcome === "close") client.end();
        else if (outcome === "reset") client.resetAndDestroy();
        else if (outcome === "cut") client.end(message.bytes.subarray(0, Math.floor(message.bytes.length / 2)));
        else for (const bytes of outcome) if (client.writable) client.write(bytes);
        if (typeof outcome === "string" && outcome !== "stall") return;
        if (client.writableNeedDrain) await Promise.race([once(client, "drain"), once(client, "close")]);
      }
    };
    await Promise.allSettled([fromClient(), fromServer()]);
    if (!stalled) upstream.destroy();
  };

  const port = await listen(server);
  return {
    url: `ldap://127.0.0.1:${port}`,
    port,
    set(next) {
      fault = next;
      searches = 0;
    },
    get searches() {
      return searches;
    },
    get connections() {
      return connections;
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** Answers the request with this result code. */
export function refuse(message: LdapMessage, code: number, text = "", referrals: readonly string[] = []): Buffer {
  const kind = message.operation === operation.bindRequest ? operation.bindResponse : operation.searchResultDone;
  return encode(message.id, kind, result(code, text, referrals));
}

/** Whether the answer ends a page and more pages follow. */
export function hasMore(message: LdapMessage): boolean {
  return message.operation === operation.searchResultDone && (pageOf(message)?.cookie.length ?? 0) > 0;
}

/** Scope 0: the rootDSE, or one entry. The scope is the second element of a search, after the base. */
function isBase({ body }: LdapMessage): boolean {
  const base = (body[1] ?? 0) < 0x80 ? 2 + (body[1] ?? 0) : 3 + (body[2] ?? 0);
  return body[base + 2] === 0;
}
