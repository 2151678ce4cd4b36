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

/** The operations of one load cycle (specification 4.1). All of them are safe to repeat after a temporary failure. */
export interface CycleClient {
  readonly id: string;
  /** Sends a chunk; the same id again replaces it (A.8). */
  upload(id: number, data: FileData, signal: AbortSignal): Promise<void>;
  /** Loads the chunks if this many have arrived (A.8). */
  commit(chunks: number, signal: AbortSignal): Promise<void>;
  status(signal: AbortSignal): Promise<CycleStatus>;
  cancel(signal: AbortSignal): Promise<void>;
  /** Hands the rejected rows to `use` (A.13). Returns undefined if there are none. */
  badRecords<T>(use: (answer: Answer) => Promise<T>, signal: AbortSignal): Promise<T | undefined>;
}

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

/**
 * @param table its name, for messages
 * @param node the node that serves the cycle, if it is not the service that was called
 */
export function cycleClient(session: Session, id: string, table: string, node: Endpoint | undefined): CycleClient {
  const advice = { 403: noPrivilege };
  const send = <T>(operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T> =>
    session.send({ ...operation, node }, use, signal);
  return {
    id,
    upload: (chunk, data, signal) =>
      send(
        {
          title: `upload of chunk ${chunk} into ${table}`,
          route: ofCycle(loadRoutes.upload, id),
          headers: { [chunkHeaders.id]: String(chunk) },
          body: fileBody(data),
          advice: {
            ...advice,
            400: "the service refuses the data",
            413: "the data is larger than the service, or a proxy in front of it, accepts",
            507: "the service has no room for the data",
          },
        },
        nothing,
        signal,
      ),
    commit: (chunks, signal) =>
      send(
        {
          title: "commit",
          route: ofCycle(loadRoutes.commit, id),
          headers: { [chunkHeaders.count]: String(chunks) },
          advice,
          accept: [500],
        },
        async (answer) => {
          if (answer.status !== 500) return;
          const text = await lineOf(answer);
          if (!text.includes("Unknown cycle_id")) throw again(`was answered 500: ${text}`);
          throw unusableAnswer(`was refused (500): ${text}`, "fix");
        },
        signal,
      ),
    status: (signal) =>
      send(
        { title: "status of the load", route: ofCycle(loadRoutes.status, id), advice },
        (answer) => jsonOf(answer, status),
        signal,
      ),
    cancel: (signal) => send({ title: "cancel", route: ofCycle(loadRoutes.cancel, id), advice }, nothing, signal),
    badRecords: (use, signal) =>
      send(
        { title: "bad records", route: ofCycle(loadRoutes.badRecords, id), advice, accept: [500] },
        async (answer) => {
          if (answer.status !== 500) return use(answer);
          const text = await lineOf(answer);
          if (text === dataTexts.noBadRecords(id)) return undefined;
          throw again(`was answered 500: ${text}`);
        },
        signal,
      ),
  };
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
