import { RefusedError } from "#errors.ts";
import { administrationRoutes } from "#wire/routes.ts";
import type { Operation } from "./request.ts";
import { describeConnection } from "#http/trust.ts";
import { listBody } from "./form.ts";
import type { FormKind } from "./form.ts";
import { complete, receive } from "./download.ts";
import type { Destination } from "./download.ts";
import type { Session } from "./session.ts";

/** A list of principals for `user/sync`. */
export interface Submission {
  /** The file that holds it, a JSON array of principal objects (B.3). */
  readonly principals: string;
  /** False: the service only computes the changes. */
  readonly applyChanges: boolean;
  /** Whether objects that are not in the list are deleted (B.4). */
  readonly deleteOthers: boolean;
  /** The password of every user that is created; empty: each user brings its own (B.3). */
  readonly defaultPassword: string;
  /** Called before each piece of the list is sent; what it throws ends the request, which the service has not got whole then. */
  readonly sending?: (() => void) | undefined;
}

/** The users and groups of a service. */
export interface Directory {
  /**
   * Writes the answer of `user/list` (B.9) to a file: complete, or not at all.
   * @returns its entity tag; undefined where the service gives none
   */
  list(destination: string, signal: AbortSignal): Promise<string | undefined>;
  /** Asks whether the list is still the one with an entity tag, without reading it. */
  isStill(tag: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Sends a list to `user/sync` and writes the answer (specification 2.8) to a file. An apply is
   * not repeated once the service may have the whole request.
   */
  sync(submission: Submission, destination: string, signal: AbortSignal): Promise<void>;
  /** Requests the list without reading it. Returns lines on what was reached and as whom, for a person. */
  reach(signal: AbortSignal): Promise<readonly string[]>;
}

/** @param first the form to try first: the specified one, unless another is known to be taken */
export function createDirectory(session: Session, first: FormKind = "urlencoded"): Directory {
  const advice = { 403: `${session.caller} lacks the administration privilege` };
  const userList: Operation = { title: "user/list", route: administrationRoutes.userList, advice };
  /** Changes when the service takes only the other. */
  let form = first;

  const submit = async (
    kind: FormKind,
    { principals, applyChanges, deleteOthers, defaultPassword, sending }: Submission,
    destination: string,
    signal: AbortSignal,
  ): Promise<void> => {
    const fields = {
      applyChanges: String(applyChanges),
      ...(defaultPassword === "" ? {} : { defaultPassword }),
      remoteDeleted: String(deleteOthers),
    };
    const body = await listBody(kind, { fields, file: { field: "principals", path: principals } }, signal);
    const operation: Operation = {
      title: `user/sync (${applyChanges ? "apply" : "preview"})`,
      route: administrationRoutes.userSync,
      body: sending === undefined ? body : { ...body, chunks: () => watched(body.chunks(), sending) },
      once: applyChanges ? "plan again to see what is left" : undefined,
      advice: { ...advice, 415: "the service takes the list neither as an urlencoded nor as a multipart form" },
      secrets: [defaultPassword],
    };
    await complete(destination, (file) => session.send(operation, (answer) => receive(answer, file, "{}"), signal));
  };

  return {
    list: async (destination, signal) => {
      let tag: string | undefined;
      const write = (file: Destination): Promise<void> =>
        session.send(
          userList,
          async (answer) => {
            tag = [answer.headers["etag"] ?? []].flat()[0];
            await receive(answer, file, "[]");
          },
          signal,
        );
      await complete(destination, write);
      return tag;
    },
    isStill: (tag, signal) => {
      const conditional = { ...userList, headers: { "if-none-match": tag }, accept: [304] };
      return session.send(conditional, async ({ status }) => status === 304, signal);
    },
    sync: async (submission, destination, signal) => {
      try {
        await submit(form, submission, destination, signal);
        return;
      } catch (error) {
        if (form === "multipart" || !(error instanceof RefusedError) || error.status !== 415) throw error;
      }
      await submit("multipart", submission, destination, signal);
      form = "multipart";
    },
    reach: (signal) =>
      session.send(
        userList,
        async ({ socket }) => [
          describeConnection(socket),
          `logged in as ${session.caller}, with the administration privilege`,
        ],
        signal,
      ),
  };
}

async function* watched(chunks: AsyncIterable<Uint8Array>, sending: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    sending();
    yield chunk;
  }
}
