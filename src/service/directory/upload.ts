import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import type { Readable } from "node:stream";
import { InputError } from "#errors.ts";
import type { Connection, Database } from "#plan/database.ts";
import type { Queue } from "#service/queue.ts";
import { createFormDecoder } from "./form.ts";
import type { FormFields } from "./form.ts";
import { createIntake } from "./intake.ts";
import type { Intake, Loader } from "./intake.ts";
import type { KeptLists } from "./kept-list.ts";
import { createLoader } from "./listed.ts";
import { readMultipart } from "./multipart.ts";
import { readSyncParameters, syncParameterNames } from "./sync-parameters.ts";
import type { SyncParameters } from "./sync-parameters.ts";

/** A call of `user/sync` that has arrived as a whole. */
export interface ReceivedSync extends SyncParameters {
  /** The connection whose temporary tables `listed` and `wrongTypes` hold the list, or what differs from the list before. */
  readonly list: Connection;
  /** The list before, with which it was compared: the one that the directory came of when it had this revision. */
  readonly base?: string;
  /** Has `listed` hold the whole list, where it holds a difference. */
  loadAll(): Promise<void>;
  /** The list was applied, and the directory has this revision: keeps it for the next one. Never throws. */
  keep(revision: string): Promise<void>;
  /** Forgets the list. Never throws. */
  discard(): Promise<void>;
}

/** What a list is received with. */
export interface Reception {
  /** Lists lie in a folder of their own below it while they are loaded. */
  readonly folder: string;
  readonly database: Database;
  readonly keptLists: KeptLists;
  /** Loads wait for their turn here: one at a time, whoever's list it is. */
  readonly turn: Queue;
}

/** The longest value of a parameter other than the list, in bytes. */
const longestParameter = 64 * 1024;

/**
 * Receives the form of `user/sync` (B.2 to B.4, 0.3): the list goes to disk, and from there into a table, as it arrives.
 * When anything fails, nothing is left of it.
 * @param contentType of the request
 * @param query gives the parameters that the form does not
 * @returns undefined when it is no form, or has no list: a 415 without a body
 * @throws {InputError} when a parameter or the list is not what it must be
 */
export async function receiveSync(
  body: Readable,
  contentType: string | undefined,
  query: URLSearchParams,
  { folder, database, keptLists, turn }: Reception,
  signal: AbortSignal,
): Promise<ReceivedSync | undefined> {
  const type = contentType?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/x-www-form-urlencoded" && type !== "multipart/form-data") return undefined;
  signal.throwIfAborted();
  addAbortSignal(signal, body);
  const pieces = join(folder, randomUUID());
  await mkdir(pieces, { mode: 0o700 });
  const connection = await database.connect();
  const loader = createLoader(connection);
  const inTurn: Loader = {
    clear: () => turn(() => loader.clear(), signal),
    load: (piece) => turn(() => loader.load(piece), signal),
    complete: () => turn(() => loader.complete(), signal),
    loadDifference: (changed, departed) => turn(() => loader.loadDifference(changed, departed), signal),
  };
  const before = await keptLists.open();
  const list = createIntake(pieces, inTurn, before);
  const discard = async (): Promise<void> => {
    connection.interrupt();
    await list.close().catch(() => undefined);
    connection.close();
  };
  try {
    const form = createForm(list);
    if (type === "multipart/form-data") await readMultipart(body, contentType ?? "", form);
    else await readUrlencoded(body, form);
    if (form.hasList()) {
      const parameters = readSyncParameters(new Map([...inLowerCase(query), ...form.values()]));
      const isWhole = await list.finish();
      return {
        list: connection,
        ...(isWhole || before === undefined ? {} : { base: before.revision }),
        ...parameters,
        loadAll: () => list.loadAll(),
        keep: (revision) => keptLists.keep(pieces, () => list.content(), revision),
        discard,
      };
    }
  } catch (error) {
    await discard();
    signal.throwIfAborted();
    throw error;
  }
  await discard();
  return undefined;
}

interface SyncForm extends FormFields {
  hasList(): boolean;
  /** The parameters by their names in lower case. */
  values(): [string, string][];
}

function createForm(list: Intake): SyncForm {
  let hasList = false;
  const values = new Map<string, Buffer[]>();
  return {
    open: (name) => {
      const lower = name.toLowerCase();
      if (lower === "principals") {
        hasList = true;
        list.restart();
        return list;
      }
      if (!syncParameterNames.has(lower)) return undefined;
      const pieces: Buffer[] = [];
      let length = 0;
      values.set(lower, pieces);
      return {
        write: (bytes) => {
          length += bytes.length;
          if (length > longestParameter) {
            throw new InputError(`${lower}: may have ${longestParameter} bytes at the most`);
          }
          pieces.push(Buffer.from(bytes));
        },
      };
    },
    room: () => list.room(),
    hasList: () => hasList,
    values: () => [...values].map(([name, pieces]) => [name, Buffer.concat(pieces).toString("utf8")]),
  };
}

function inLowerCase(query: URLSearchParams): [string, string][] {
  return [...query].map(([name, value]) => [name.toLowerCase(), value]);
}

async function readUrlencoded(body: Readable, form: FormFields): Promise<void> {
  const decoder = createFormDecoder((name) => form.open(name));
  // The request stays open when the form is refused, for the answer.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    decoder.write(chunk);
    await form.room();
  }
  decoder.end();
}
