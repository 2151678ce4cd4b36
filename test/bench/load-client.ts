import { Loads } from "#client/loads.ts";
import { format } from "./rows.ts";
import type { Timing } from "./client.ts";

/** A process of its own: loads a file so many times, one after the other, and prints how long each took. */
export interface LoadRequest {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly file: string;
  readonly table: string;
  readonly times: number;
}

/** From the first byte that is sent of a load to the end of it. */
export interface LoadTimings {
  readonly loads: readonly Timing[];
  /** Rows, of each load. */
  readonly written: number;
}

const { url, username, password, file, table, times } = JSON.parse(process.argv[2] ?? "") as LoadRequest;
const client = new Loads({ name: "bench", url, credentials: { username, password } });
const loads: Timing[] = [];
let written = 0;
for (let i = 0; i < times; i++) {
  const started = performance.now();
  const loaded = await client.load(
    { into: { database: "bench", table }, format, sources: [{ name: file, path: file }] },
    { signal: new AbortController().signal },
  );
  loads.push({ milliseconds: performance.now() - started });
  if (loaded.code !== "OK") throw new Error(`${loaded.code}: ${loaded.message ?? ""}`);
  written = loaded.written;
}
await client.close();
console.log(JSON.stringify({ loads, written } satisfies LoadTimings));
