import { gunzipSync } from "node:zlib";
import { Client } from "undici";
import { sessionCookie } from "#wire/routes.ts";
import type { Observation } from "./judge.ts";

/** What a process of clients tells now and then. */
export interface Report {
  /** How long each took, in milliseconds, by what it was. */
  readonly times: Readonly<Record<string, readonly number[]>>;
  readonly observations: readonly Observation[];
  /** How many were refused as the interface allows, by what was asked for and the status. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
  readonly requests: number;
  /** How late the timers of the process were, in milliseconds. */
  readonly late: number;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The cookie of a session that it opens. */
  readonly session: string | undefined;
  readonly retryAfter: number;
  /** On the clock of all processes, in milliseconds. */
  readonly began: number;
  readonly ended: number;
}

export interface Ask {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

/** Milliseconds on a clock that all processes of the machine share. */
export function now(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

/** One connection. */
export interface Connection {
  readonly session: string | undefined;
  /** Asks with the session of the connection, and from its address. */
  ask(request: Ask): Promise<Answer>;
  close(): Promise<void>;
}

/** @param address where the service is to believe that the client is */
export function connect(url: string, { session, address }: { session?: string; address: string }): Connection {
  const client = new Client(url, { headersTimeout: 0, bodyTimeout: 0 });
  return {
    session,
    ask: async ({ headers, body, signal, ...request }) => {
      const began = now();
      const answer = await client.request({
        ...request,
        headers: {
          ...(session === undefined ? {} : { cookie: `${sessionCookie}=${session}` }),
          "x-forwarded-for": address,
          ...headers,
        },
        body: body ?? null,
        ...(signal === undefined ? {} : { signal }),
      });
      const bytes = Buffer.from(await answer.body.arrayBuffer());
      const ended = now();
      const text = answer.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes;
      const [cookie] = [answer.headers["set-cookie"]].flat();
      return {
        status: answer.statusCode,
        text: text.toString(),
        session: cookie?.replace(/;.*/, "").slice(sessionCookie.length + 1),
        retryAfter: Number(answer.headers["retry-after"]),
        began,
        ended,
      };
    },
    close: () => client.close(),
  };
}

export function formOf(fields: Readonly<Record<string, string>>): Pick<Ask, "headers" | "body"> {
  return {
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
    body: new URLSearchParams(fields).toString(),
  };
}

const boundary = "------------of-a-crowd";

/** A body whose last part is a file. */
export function fileOf(
  field: string,
  content: string,
  fields: Readonly<Record<string, string>> = {},
): { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer } {
  const part = (name: string, more = ""): string =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`;
  const before = Object.entries(fields).map(([name, value]) => `${part(name)}${value}\r\n`);
  return {
    headers: { "content-type": `multipart/form-data; boundary=${boundary}`, accept: "application/json" },
    body: Buffer.from(`${before.join("")}${part(field, '; filename="file"')}${content}\r\n--${boundary}--\r\n`),
  };
}
