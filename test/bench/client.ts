import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { Client } from "undici";
import { administrationRoutes, familyB, sessionCookie } from "#wire/routes.ts";

/** A process of its own: one request with the body and to the answer in files. Prints how long it took. */
export interface ClientRequest {
  readonly url: string;
  /** The cookie value of a session. */
  readonly session: string;
  /** The file that holds the urlencoded body of a `user/sync`; absent: `user/list`. */
  readonly form?: string;
  /** The file the answer is written to. */
  readonly answer: string;
}

/** How long the request took: from the first byte that is sent to the last that is received, connecting included. */
export interface Timing {
  readonly milliseconds: number;
}

const request = JSON.parse(process.argv[2] ?? "") as ClientRequest;
const route = request.form === undefined ? administrationRoutes.userList : administrationRoutes.userSync;
const headers: Record<string, string> = { cookie: `${sessionCookie}=${request.session}`, accept: "application/json" };
// Read before the clock starts: what the client does meanwhile is taken from the service's processors.
const form = request.form === undefined ? null : await readFile(request.form);
if (form !== null) headers["content-type"] = "application/x-www-form-urlencoded";
const client = new Client(request.url, { headersTimeout: 0, bodyTimeout: 0 });
const started = performance.now();
const { statusCode, body } = await client.request({
  method: route.method,
  path: familyB + route.path,
  headers,
  body: form,
});
await pipeline(body, createWriteStream(request.answer));
const milliseconds = performance.now() - started;
await client.close();
if (statusCode !== 200) throw new Error(`${route.path} was answered ${statusCode}; see ${request.answer}`);
console.log(JSON.stringify({ milliseconds } satisfies Timing));
