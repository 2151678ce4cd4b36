import { z } from "zod";
import { chunkHeaders, loadStarted } from "#wire/loads.ts";
import type { LoadRequest, LoadStarted } from "#wire/loads.ts";
import { loadRoutes, ofCycle } from "#wire/routes.ts";
import { dataTexts } from "#wire/texts.ts";
import type { Operation, Use } from "./request.ts";
import { jsonBody, textOf } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import type { HttpError } from "#http/errors.ts";
import { unusableAnswer } from "#http/errors.ts";
import { fileBody } from "./form.ts";
import type { FileData } from "./form.ts";
import type { Endpoint } from "./endpoint.ts";
import { jsonOf } from "./request.ts";
import { presentable } from "#redact.ts";
import type { Session } from "./session.ts";

/** The part of a status (specification 2.4) that a load needs. */
const status = z.object({
  internal_stage: z.string(),
  status: z.object({ code: z.string(), message: z.string().optional() }),
  rows_written: z.coerce.number().catch(0),
  ignored_row_count: z.coerce.number().catch(0),
  parsing_errors: z.array(z.string()).catch([]),
});
export type CycleStatus = z.infer<typeof status>;

const noPrivilege = "the account lacks the privilege for data loads";

/** Starts a load cycle. @throws {RefusedError} */
export function startCycle(session: Session, request: LoadRequest, signal: AbortSignal): Promise<LoadStarted> {
  const operation = {
    title: "start of the load",
    route: loadRoutes.start,
    body: jsonBody(request),
    advice: { 403: noPrivilege },
  };
  return session.send(operation, (answer) => jsonOf(answer, loadStarted), signal);
}

/** The operations of one load cycle (specification 4.1). All of them are safe to repeat after a temporary failure. */
export class Cycle {
  readonly id: string;
  readonly #session: Session;
  readonly #table: string;
  readonly #node: Endpoint | undefined;

  /**
   * @param table its name, for messages
   * @param node the node that serves the cycle, if it is not the service that was called
   */
  constructor(session: Session, id: string, table: string, node: Endpoint | undefined) {
    this.id = id;
    this.#session = session;
    this.#table = table;
    this.#node = node;
  }

  /** Sends a chunk; the same id again replaces it (A.8). */
  upload(chunk: number, data: FileData, signal: AbortSignal): Promise<void> {
    const operation = {
      title: `upload of chunk ${chunk} into ${this.#table}`,
      route: ofCycle(loadRoutes.upload, this.id),
      headers: { [chunkHeaders.id]: String(chunk) },
      body: fileBody(data),
      advice: {
        400: "the service refuses the data",
        413: "the data is larger than the service, or a proxy in front of it, accepts",
        507: "the service has no room for the data",
      },
    };
    return this.#send(operation, nothing, signal);
  }

  /** Loads the chunks if this many have arrived (A.8). */
  commit(chunks: number, signal: AbortSignal): Promise<void> {
    const operation = {
      title: "commit",
      route: ofCycle(loadRoutes.commit, this.id),
      headers: { [chunkHeaders.count]: String(chunks) },
      accept: [500],
    };
    return this.#send(operation, assertCommitted, signal);
  }

  status(signal: AbortSignal): Promise<CycleStatus> {
    const operation = { title: "status of the load", route: ofCycle(loadRoutes.status, this.id) };
    return this.#send(operation, (answer) => jsonOf(answer, status), signal);
  }

  cancel(signal: AbortSignal): Promise<void> {
    return this.#send({ title: "cancel", route: ofCycle(loadRoutes.cancel, this.id) }, nothing, signal);
  }

  /** Hands the rejected rows to `use` (A.13). Returns undefined if there are none. */
  badRecords<T>(use: (answer: Answer) => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    const operation = { title: "bad records", route: ofCycle(loadRoutes.badRecords, this.id), accept: [500] };
    const found = async (answer: Answer): Promise<T | undefined> => {
      if (answer.status !== 500) return use(answer);
      const text = await lineOf(answer);
      if (text === dataTexts.noBadRecords(this.id)) return undefined;
      throw again(`was answered 500: ${text}`);
    };
    return this.#send(operation, found, signal);
  }

  #send<T>(operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T> {
    const advice = { 403: noPrivilege, ...operation.advice };
    return this.#session.send({ ...operation, advice, node: this.#node }, use, signal);
  }
}

async function assertCommitted(answer: Answer): Promise<void> {
  if (answer.status !== 500) return;
  const text = await lineOf(answer);
  if (!text.includes("Unknown cycle_id")) throw again(`was answered 500: ${text}`);
  throw unusableAnswer(`was refused (500): ${text}`, "fix");
}

async function nothing(): Promise<void> {
  // A successful answer says nothing new.
}

async function lineOf(answer: Answer): Promise<string> {
  return presentable(await textOf(answer));
}

function again(reason: string): HttpError {
  return unusableAnswer(reason, "repeat");
}
