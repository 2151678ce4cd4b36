import type { Readable } from "node:stream";
import type { ReceivedSync } from "./upload.ts";

/** The users and groups of the service, in its database. */
export interface Directory {
  /** A user that may log in, or undefined. `id` is never reused: a user created again under one name has another. */
  account(name: string): Promise<Account | undefined>;
  /** The names of all groups the user is in, directly or through groups (0.6). Cycle-safe. */
  effectiveGroups(name: string): Promise<ReadonlySet<string>>;
  /** The answer of `user/list`, a JSON array (B.9), as a stream of bytes: what was there when it was asked for. */
  list(): Promise<Readable>;
  /**
   * Receives the form of `user/sync` (B.2 to B.4, 0.3); the list lies in `folder` on its way.
   * @returns undefined when it is no form, or has no list: a 415 without a body
   * @throws {InputError} when a parameter or the list is not what it must be
   */
  receive(
    body: Readable,
    contentType: string | undefined,
    query: URLSearchParams,
    folder: string,
    signal: AbortSignal,
  ): Promise<ReceivedSync | undefined>;
  /**
   * Specification 4.2, `principal/sync`. Calls queue behind each other (B.8).
   * @returns the JSON answer of specification 2.8 as a stream of bytes
   * @throws {InputError} B.5; its `problems` are the first hundred, nothing has changed
   */
  sync(request: DirectorySync, signal: AbortSignal): Promise<Readable>;
}

export interface Account {
  readonly id: string;
  readonly name: string;
  /** An argon2id hash in PHC form. */
  readonly passwordHash: string;
}

/** What was received, and who sent it. */
export interface DirectorySync extends Omit<ReceivedSync, "discard"> {
  /** The name of the user who is calling: never deleted (0.7). */
  readonly caller: string;
}
