import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import type { Readable } from "node:stream";
import { InputError } from "#errors.ts";
import { createFormDecoder } from "./form.ts";
import type { FormFields } from "./form.ts";
import { createListFile } from "./list-file.ts";
import type { ListFile } from "./list-file.ts";
import type { ListTraits } from "./list-traits.ts";
import { readMultipart } from "./multipart.ts";
import { readSyncParameters, syncParameterNames } from "./sync-parameters.ts";
import type { SyncParameters } from "./sync-parameters.ts";

/** A call of `user/sync` that has arrived as a whole. */
export interface ReceivedSync extends SyncParameters {
  /** The file that holds the list, an element a line. */
  readonly principals: string;
  /** What the list was seen to be as it arrived. */
  readonly traits: ListTraits;
  /** Removes the file. Never throws. */
  discard(): Promise<void>;
}

/** The longest value of a parameter other than the list, in bytes. */
const longestParameter = 64 * 1024;

/**
 * Receives the form of `user/sync` (B.2 to B.4, 0.3): the list goes to a file in `folder` as it arrives.
 * When anything fails, no file is left.
 * @param contentType of the request
 * @param query gives the parameters that the form does not
 * @returns undefined when it is no form, or has no list: a 415 without a body
 * @throws {InputError} when a parameter or the list is not what it must be
 */
export async function receiveSync(
  body: Readable,
  contentType: string | undefined,
  query: URLSearchParams,
  folder: string,
  signal: AbortSignal,
): Promise<ReceivedSync | undefined> {
  const type = contentType?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/x-www-form-urlencoded" && type !== "multipart/form-data") return undefined;
  signal.throwIfAborted();
  addAbortSignal(signal, body);
  const principals = join(folder, `${randomUUID()}.list`);
  const list = await createListFile(principals);
  const form = createForm(list);
  const discard = (): Promise<void> => rm(principals, { force: true }).catch(() => undefined);
  try {
    if (type === "multipart/form-data") await readMultipart(body, contentType ?? "", form);
    else await readUrlencoded(body, form);
    if (!form.hasList()) {
      await discard();
      return undefined;
    }
    const parameters = readSyncParameters(new Map([...inLowerCase(query), ...form.values()]));
    const traits = await list.finish();
    return { principals, traits, ...parameters, discard };
  } catch (error) {
    await discard();
    signal.throwIfAborted();
    throw error;
  } finally {
    await list.close();
  }
}

interface SyncForm extends FormFields {
  hasList(): boolean;
  /** The parameters by their names in lower case. */
  values(): [string, string][];
}

function createForm(list: ListFile): SyncForm {
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
