import type { Readable } from "node:stream";
import type { ListTraits } from "./list-traits.ts";

/** The users and groups of the service, in its database. */
export interface Directory {
  /** A user that may log in, or undefined. `id` is never reused: a user created again under one name has another. */
  account(name: string): Promise<Account | undefined>;
  /** The names of all groups the user is in, directly or through groups (0.6). Cycle-safe. */
  effectiveGroups(name: string): Promise<ReadonlySet<string>>;
  /** The answer of `user/list`, a JSON array (B.9), as a stream of bytes: what was there when it was asked for. */
  list(): Promise<Readable>;
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

/** A list as `receiveSync` has received it, and what is to be done with it. */
export interface DirectorySync {
  /** A file on disk that holds the list, an element a line. */
  readonly principals: string;
  /** What the list was seen to be as it arrived. */
  readonly traits: ListTraits;
  /** False: preview (B.3). */
  readonly apply: boolean;
  /** False: objects that are not in the list stay (B.4). */
  readonly removeDeleted: boolean;
  /** When set, every created user gets it (B.3). */
  readonly defaultPassword?: string;
  /** The name of the user who is calling: never deleted (0.7). */
  readonly caller: string;
}
