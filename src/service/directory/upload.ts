import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import type { Readable } from "node:stream";
import { InputError } from "#errors.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import type { Queue } from "#queue.ts";
import { decode } from "./encoding.ts";
import type { Encoding } from "./encoding.ts";
import { createFormSplitter } from "./form.ts";
import type { FormFields } from "./form.ts";
import { createIntake } from "./intake.ts";
import type { Intake, Loader } from "./intake.ts";
import type { KeptLists } from "./kept-list.ts";
import { createLoader } from "./listed.ts";
import { readMultipart } from "./multipart.ts";
import { mayApply, readSyncParameters, syncParameterNames } from "./sync-parameters.ts";
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
  const connection = await database.connect();
  const loader = createLoader(connection);
  const inTurn: Loader = {
    clear: () => turn(() => loader.clear(), signal),
    load: (piece) => turn(() => loader.load(piece), signal),
    complete: () => turn(() => loader.complete(), signal),
    loadDifference: (changed, departed) => turn(() => loader.loadDifference(changed, departed), signal),
  };
  const kept = await keptLists.open();
  const form = createForm(inLowerCase(query), (encoding, mayBeApplied, before) =>
    createIntake({
      folder: join(folder, randomUUID()),
      encoding,
      loader: inTurn,
      isCopied: mayBeApplied,
      ...(before === undefined ? { kept } : { after: before.close() }),
    }),
  );
  const discard = async (): Promise<void> => {
    connection.interrupt();
    await form.list?.close().catch(() => undefined);
    kept?.close();
    connection.close();
  };
  try {
    if (type === "multipart/form-data") await readMultipart(body, contentType ?? "", form);
    else await readUrlencoded(body, form);
    const { list } = form;
    if (list !== undefined) {
      const parameters = readSyncParameters(form.values());
      const isWhole = await list.finish();
      return {
        list: connection,
        ...(isWhole || kept === undefined ? {} : { base: kept.revision }),
        ...parameters,
        loadAll: () => list.loadAll(),
        keep: (revision) => keptLists.keep(() => list.copy(), revision),
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
  /** The list that was given last. */
  readonly list: Intake | undefined;
  /** The parameters by their names in lower case: those of the form, and of the query what it does not have. */
  values(): Map<string, string>;
}

/**
 * @param query the parameters of the query, by their names in lower case
 * @param openList opens a list that takes the place of another; `mayBeApplied` is false when the parameters so far say so
 */
function createForm(
  query: readonly [string, string][],
  openList: (encoding: Encoding, mayBeApplied: boolean, before: Intake | undefined) => Intake,
): SyncForm {
  let list: Intake | undefined;
  const given = new Map<string, { readonly pieces: Buffer[]; readonly encoding: Encoding }>();

  function values(): Map<string, string> {
    const result = new Map(query);
    for (const [name, { pieces, encoding }] of given) {
      const text = decode(Buffer.concat(pieces), encoding);
      if (text.length > longestParameter) {
        throw new InputError(`${name}: may have ${longestParameter} bytes at the most`);
      }
      result.set(name, text.toString("utf8"));
    }
    return result;
  }

  return {
    open: (name, encoding) => {
      const lower = name.toLowerCase();
      if (lower === "principals") {
        list = openList(encoding, mayApply(values()), list);
        return list;
      }
      if (!syncParameterNames.has(lower)) return undefined;
      const pieces: Buffer[] = [];
      let length = 0;
      given.set(lower, { pieces, encoding });
      return {
        write: (bytes) => {
          // What is encoded takes up to three times as much. The rest of what is too long is not needed to tell.
          if (length <= 3 * longestParameter) pieces.push(Buffer.from(bytes));
          length += bytes.length;
        },
      };
    },
    room: () => list?.room() ?? Promise.resolve(),
    get list() {
      return list;
    },
    values,
  };
}

function inLowerCase(query: URLSearchParams): [string, string][] {
  return [...query].map(([name, value]) => [name.toLowerCase(), value]);
}

async function readUrlencoded(body: Readable, form: FormFields): Promise<void> {
  const splitter = createFormSplitter((name) => form.open(name, "urlencoded"));
  // The request stays open when the form is refused, for the answer.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    splitter.write(chunk);
    await form.room();
  }
  splitter.end();
}
