import type { Push } from "./events.ts";
import type { InboxReader } from "./reader.ts";
import type { InboxTokens } from "./tokens.ts";
import type { InboxWriter } from "./writer.ts";

/*
 * What providers have pushed, a source each: users, groups and their members, and what happened when. Statements are the same
 * for SQLite and PostgreSQL, and held to one suite, `test/contract/state/inbox.test.ts`.
 */

/** Where what was pushed is stored. */
export interface Inboxes {
  /** Reads as of one moment, however long that takes. */
  read<Result>(source: string, work: (inbox: InboxReader) => Promise<Result>): Promise<Result>;
  /**
   * Changes it: all of it or nothing, one change at a time over all processes. When it resolves, that survives a power failure.
   * @param push who changes it, and when
   * @throws what `work` throws; {UnavailableError} when the store does not answer, or the disk is full
   */
  change<Result>(source: string, push: Push, work: (inbox: InboxWriter) => Promise<Result>): Promise<Result>;
  /** Changes who may push, as `change` does; what was pushed stays as it is. */
  changeTokens<Result>(source: string, work: (tokens: InboxTokens) => Promise<Result>): Promise<Result>;
}
