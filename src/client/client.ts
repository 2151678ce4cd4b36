import { RefusedError } from "#errors.ts";
import { describeConnection } from "#http/trust.ts";
import { administrationRoutes, familyB } from "#wire/routes.ts";
import { complete, jsonBytes, receive } from "./download.ts";
import { listBody } from "./form.ts";
import type { FormKind } from "./form.ts";
import { contextOf } from "./request.ts";
import type { Context, Operation, RequestOptions } from "./request.ts";
import { createSession } from "./session.ts";
import type { Credentials, Session } from "./session.ts";

export interface ClientOptions extends RequestOptions {
  readonly credentials: Credentials;
  /**
   * The encoding to try first for a list. Default: urlencoded, which every service accepts, although it makes a list half
   * as long again.
   */
  readonly form?: FormKind | undefined;
}

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

/**
 * A client of family B: the users and groups of a service. Every method throws `UnavailableError` or `RefusedError`, which
 * name the target, the operation and what to do, and the reason of its signal as soon as that is aborted. Nothing is left
 * open between calls.
 */
export class Client {
  readonly #context: Context;
  readonly #session: Session;
  readonly #userList: Operation;
  /** Changes when the service takes only the other. */
  #form: FormKind;

  /** @throws {InputError} the url or the certificate is invalid */
  constructor(options: ClientOptions) {
    this.#context = contextOf(options, familyB);
    this.#session = createSession(this.#context, options.credentials);
    const advice = { 403: `${this.#session.caller} lacks the administration privilege` };
    this.#userList = { title: "user/list", route: administrationRoutes.userList, advice };
    this.#form = options.form ?? "urlencoded";
  }

  /** Opens a session now instead of with the first request that needs one. */
  login(signal: AbortSignal): Promise<void> {
    return this.#session.login(signal);
  }

  /** Ends a session that this client opened, but not one that it was given. */
  logout(signal: AbortSignal): Promise<void> {
    return this.#session.logout(signal);
  }

  /**
   * Writes the answer of `user/list` (B.9) to a file: complete, or not at all.
   * @returns its entity tag; undefined where the service gives none
   */
  async list(destination: string, signal: AbortSignal): Promise<string | undefined> {
    let tag: string | undefined;
    await complete(destination, async (file) => {
      tag = await this.readList((bytes) => receive(bytes, file), signal);
    });
    return tag;
  }

  /**
   * Hands the answer of `user/list` (B.9) to `read` as it arrives: from the beginning at each call, of which there are several
   * where answers break off.
   * @returns its entity tag; undefined where the service gives none
   */
  readList(read: (bytes: AsyncIterable<Buffer>) => Promise<void>, signal: AbortSignal): Promise<string | undefined> {
    return this.#session.send(
      this.#userList,
      async (answer) => {
        const problems: unknown[] = [];
        // Whatever `read` makes of an answer that broke off.
        await read(reporting(jsonBytes(answer, "[]"), problems)).catch((error: unknown) => {
          throw problems[0] ?? error;
        });
        return [answer.headers["etag"] ?? []].flat()[0];
      },
      signal,
    );
  }

  /** Asks whether the list is still the one with an entity tag, without reading it. */
  isStill(tag: string, signal: AbortSignal): Promise<boolean> {
    const conditional = { ...this.#userList, headers: { "if-none-match": tag }, accept: [304] };
    return this.#session.send(conditional, async ({ status }) => status === 304, signal);
  }

  /**
   * Sends a list to `user/sync` and writes the answer (specification 2.8) to a file. An apply is
   * not repeated once the service may have the whole request.
   */
  async sync(submission: Submission, destination: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#submit(this.#form, submission, destination, signal);
      return;
    } catch (error) {
      if (this.#form === "multipart" || !(error instanceof RefusedError) || error.status !== 415) throw error;
    }
    await this.#submit("multipart", submission, destination, signal);
    this.#form = "multipart";
  }

  async #submit(
    kind: FormKind,
    { principals, applyChanges, deleteOthers, defaultPassword, sending }: Submission,
    destination: string,
    signal: AbortSignal,
  ): Promise<void> {
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
      advice: {
        ...this.#userList.advice,
        415: "the service takes the list neither as an urlencoded nor as a multipart form",
      },
      secrets: [defaultPassword],
    };
    await complete(destination, (file) =>
      this.#session.send(operation, (answer) => receive(jsonBytes(answer, "{}"), file), signal),
    );
  }

  /** Requests the list without reading it. Returns lines on what was reached and as whom, for a person. */
  async reach(signal: AbortSignal): Promise<readonly string[]> {
    const { caller } = this.#session;
    const connection = await this.#session.send(
      this.#userList,
      async ({ socket }) => describeConnection(socket),
      signal,
    );
    return [this.#context.endpoint.place, connection, `logged in as ${caller}, with the administration privilege`];
  }
}

async function* reporting(bytes: AsyncIterable<Buffer>, problems: unknown[]): AsyncGenerator<Buffer> {
  try {
    yield* bytes;
  } catch (error) {
    problems.push(error);
    throw error;
  }
}

async function* watched(chunks: AsyncIterable<Uint8Array>, sending: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    sending();
    yield chunk;
  }
}
