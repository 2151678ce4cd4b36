import type { Attributes } from "#principals/attributes.ts";

/** The service that a sync writes to. Every list is a file: none is ever one string in memory. */
export interface Target {
  /** The target's name in the configuration, for messages. */
  readonly name: string;
  /** The attributes of its users and groups (decision 8). */
  readonly declared: Attributes;
  /**
   * Writes the answer of `user/list`, a JSON array of principal objects (B.9), to the file `destination`.
   * @returns the entity tag of the list (RFC 9110, 8.8.3); undefined where the service gives none
   * @throws {UnavailableError | RefusedError} naming the target and the operation
   */
  list(destination: string, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Whether the list is still the one with this entity tag. Cheap. Absent: nobody can say.
   * @throws {UnavailableError | RefusedError} naming the target and the operation
   */
  isStill?(tag: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Sends the file `request.principals`, a JSON array of principal objects (B.3), to `user/sync` and writes the answer
   * (specification 2.8) to the file `destination`.
   * An apply is never retried once the request may have arrived.
   * @throws {UnavailableError | RefusedError} naming the target and the operation
   */
  sync(request: SyncRequest, destination: string, signal: AbortSignal): Promise<void>;
  /**
   * Checks that the service can be reached, and that the account may list users and groups.
   * @returns lines for people: what was reached, how the connection is protected, and as whom. Never a secret
   * @throws {UnavailableError | RefusedError} naming the target and the operation
   */
  check(signal: AbortSignal): Promise<readonly string[]>;
  /** Ends the session. Never throws. */
  close(): Promise<void>;
}

export interface SyncRequest {
  /** The file that holds the list. */
  readonly principals: string;
  /** False: the service only computes the difference. */
  readonly applyChanges: boolean;
  /** Whether objects that are not in the list are deleted (B.4). */
  readonly deleteOthers: boolean;
  /** The password of every user that is created (B.3). */
  readonly defaultPassword: string;
  /** Called before each piece of the list is sent; what it throws ends the request, which the service has not got whole then. */
  readonly sending?: (() => void) | undefined;
}
