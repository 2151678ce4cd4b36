import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { InputError } from "#errors.ts";
import { openDatabase } from "#duckdb/database.ts";
import { openDirectory } from "#service/directory/open.ts";

/** A call of `user/sync`: the text of the list, and how it is sent. */
export interface Call {
  readonly list: string;
  readonly apply: boolean;
  readonly removeDeleted?: boolean;
  readonly defaultPassword?: string;
  readonly caller?: string;
  readonly form?: "urlencoded" | "multipart";
  /** The body comes in pieces of so many bytes. */
  readonly pieces?: number;
}

/** What a call was answered, and how much of the list was looked at. */
export interface Outcome {
  readonly answer: unknown;
  /** `difference`: only what differs from the list before. `fallback`: all of it, after its difference. */
  readonly read: "all" | "difference" | "fallback";
}

export interface ListedPrincipal {
  readonly name: string;
  readonly principalTypeEnum: string;
  readonly created: number;
  readonly modified: number;
}

/** A directory of its own, opened as the service does. */
export interface Opened {
  readonly folder: string;
  readonly log: string[];
  /** @param meanwhile happens when the list has arrived, before it is this call's turn */
  call(call: Call, meanwhile?: () => Promise<unknown>): Promise<Outcome>;
  /** The answer of `user/list`. */
  list(): Promise<ListedPrincipal[]>;
  /** The folders of kept lists. */
  kept(): Promise<string[]>;
  /** As a restart would. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

const boundary = "a-boundary-of-the-test";

export async function open(): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-directory-"));
  const uploads = join(folder, "uploads");
  await mkdir(uploads);
  const log: string[] = [];
  const logger = pino({ level: "warn" }, { write: (line: string) => log.push(line) });
  const start = async () => {
    const database = await openDatabase({ path: join(folder, "d.duckdb"), memory: 2 ** 28, spill: join(folder, "s") });
    const administrator = { name: "admin", password: "a-password" };
    return { database, directory: await openDirectory({ database, folder, administrator, log: logger }) };
  };
  let { database, directory } = await start();
  const stop = async (): Promise<void> => {
    await directory.close();
    database.close();
  };
  const { signal } = new AbortController();
  const kept = join(folder, "list");
  return {
    folder,
    log,
    kept: async () => (await readdir(kept)).map((name) => join(kept, name)),
    call: async (call, meanwhile) => {
      const { caller = "admin" } = call;
      const [body, type] = call.form === "multipart" ? multipart(call) : urlencoded(call);
      const bytes = Buffer.from(body);
      const size = call.pieces ?? 65_536;
      const count = Math.ceil(bytes.length / size);
      const pieces = Array.from({ length: count }, (_, at) => Buffer.from(bytes.subarray(at * size, (at + 1) * size)));
      try {
        const received = await directory.receive(Readable.from(pieces), type, new URLSearchParams(), uploads, signal);
        if (received === undefined) throw new Error("it is no form");
        let read: Outcome["read"] = received.base === undefined ? "all" : "difference";
        const loadAll = (): Promise<void> => {
          if (read === "difference") read = "fallback";
          return received.loadAll();
        };
        try {
          await meanwhile?.();
          const answer = await directory.sync({ ...received, loadAll, caller }, signal);
          return { answer: JSON.parse(await text(answer)) as unknown, read };
        } catch (error) {
          return { answer: refusal(error), read };
        } finally {
          await received.discard();
        }
      } catch (error) {
        return { answer: refusal(error), read: "all" };
      }
    },
    list: async () => JSON.parse(await text(await directory.list())) as ListedPrincipal[],
    reopen: async () => {
      await stop();
      ({ database, directory } = await start());
    },
    close: async () => {
      await stop();
      await rm(folder, { recursive: true });
    },
  };
}

function refusal(error: unknown): { message: string; problems: readonly string[] } {
  if (!(error instanceof InputError)) throw error;
  return { message: error.message, problems: error.problems };
}

function fieldsOf({ apply, removeDeleted, defaultPassword }: Call): [string, string][] {
  return Object.entries({ applyChanges: apply, remoteDeleted: removeDeleted, defaultPassword })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)]);
}

function urlencoded(call: Call): [string, string] {
  const form = new URLSearchParams([...fieldsOf(call), ["principals", call.list]]);
  return [form.toString(), "application/x-www-form-urlencoded"];
}

function multipart(call: Call): [string, string] {
  const parts = [...fieldsOf(call), ["principals", call.list]].map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  return [`${parts.join("")}--${boundary}--\r\n`, `multipart/form-data; boundary=${boundary}`];
}
