import type { z } from "zod";
import type { Inboxes } from "#state/inbox/inbox.ts";
import type { Admit, InboxSettings, Pushed, SeenPushes } from "#state/inbox/status.ts";
import type { Attribute } from "#principals/attributes.ts";
import type { Entry, MembershipLines, SourceRecord } from "#principals/entry.ts";
import type { Kind, PrincipalValue } from "#principals/principal.ts";

export type { InboxSettings } from "#state/inbox/status.ts";
export type { Attribute } from "#principals/attributes.ts";
export type { Entry, MemberReference, Membership, MembershipLines, SourceRecord } from "#principals/entry.ts";
export type { Kind, PrincipalValue } from "#principals/principal.ts";

/** The context of a read. */
export interface ReadContext {
  /** Aborts the read: it ends within a second by throwing the signal's reason. */
  readonly signal: AbortSignal;
  /** Reports something that does not fail the read but that a person should know. Must not hold a secret. */
  readonly warn: (message: string) => void;
  /** The attributes that are used, by kind; a connector may leave the others out. Absent: all. */
  readonly attributes?: WantedAttributes | undefined;
  /**
   * Of the attributes that rules name, those that this source must know, by kind: no other source can have them, and a
   * rule reads them without `has` or `coalesce`. A table without such a column is not the one that the rules were written
   * for. Absent: none.
   */
  readonly required?: WantedAttributes | undefined;
  /**
   * What the source counted (with `count`) at its last good read with the same options. Absent: there was none. What had
   * something then and has nothing now may be offline.
   */
  readonly lastCounts?: Readonly<Record<string, number>> | undefined;
  /** Lets the read wait until no more is on its way, and is told of that. Absent: what is there now is read. */
  readonly waiting?: ((message: string) => void) | undefined;
  /** Reports how much there is of something, under a name that a person understands. Stored when the run succeeds. */
  readonly count?: ((name: string, amount: number) => void) | undefined;
  /**
   * Takes memberships as lines, instead of the records that they are, and resolves when there is room for more. They count
   * as delivered, and only if the read ends without an error. Absent: they come as records.
   */
  readonly takeLines?: ((lines: MembershipLines) => Promise<void>) | undefined;
}

/** A user or group of a source, by its immutable id. */
export type RecordId = Pick<Entry, "kind" | "id">;

/** Names of attributes as rules write them: `entry.NAME`. */
export interface WantedAttributes {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** An opened source. */
export interface Source {
  /**
   * Everything in scope, in batches (of about a thousand), or an error: a read that ends without throwing is a promise
   * that nothing is missing. Keeps nothing in memory that grows with the directory.
   * @throws {IncompleteReadError} completeness cannot be proven
   * @throws {InputError} the data is malformed; the message names file and line
   * @throws {UnavailableError} the source cannot be reached
   */
  read(context: ReadContext): AsyncIterable<readonly SourceRecord[]>;
  /** No record comes twice in a complete read: an id that does proves that the read is not. Absent: it may happen. */
  readonly uniqueIds?: true | undefined;
  /** What it delivers comes from a server, piece by piece. Absent: from files, which are whole or not. */
  readonly paged?: true | undefined;
  /**
   * Looks records up by their ids, wherever they are now: those that exist and are in scope, with their present keys, in
   * any order. Called before anybody is deleted, or loses a membership, because a read did not find them.
   * Absent: the source cannot look up single records.
   * @throws what `read` throws
   */
  find?(records: readonly RecordId[], context: ReadContext): AsyncIterable<readonly Entry[]>;
  /**
   * What `read` checks of the records that come, besides the proof that they are all, of records that the source could
   * deliver: a rehearsal asks which read would have failed. Uses the same code as `read`, and no connection. Absent: `read`
   * checks nothing but that.
   * @throws {IncompleteReadError | InputError} what `read` would throw
   */
  recheck?(rehearsed: Rehearsed, context: ReadContext): AsyncIterable<readonly SourceRecord[]>;
  /**
   * Connects to the source without reading it. Lines for a person: the server, its protection, the login. Never a secret.
   * Absent: a read shows everything there is to say.
   * @throws {UnavailableError} the source cannot be reached
   */
  describe?(context: ReadContext): Promise<readonly string[]>;
  /**
   * What `base` can be, for a person who sets the source up. Does not use the bases in the options.
   * @throws {UnavailableError} the source cannot be reached
   */
  places?(context: ReadContext): Promise<readonly string[]>;
  /**
   * A value that differs whenever a read may deliver something else; undefined: the source cannot say now. Cheap.
   * Absent: the source can never say.
   */
  version?(context: ReadContext): Promise<string | undefined>;
  /** The version is a digest of everything that a read reads. Absent: it is a server's word, used with `fullReadEvery` alone. */
  readonly versionIsDigest?: true | undefined;
  /**
   * What providers have taken away, and whether absence means anything yet. Asked after a read. Absent: nobody pushes to it.
   * @param now in epoch milliseconds
   */
  pushed?(seen: SeenPushes, now: number): Promise<Pushed>;
}

/** Records that a source could deliver. */
export interface Rehearsed {
  readonly records: AsyncIterable<readonly SourceRecord[]>;
  /** The attribute that the source has under another name now. */
  readonly renamed?: { readonly kind: Entry["kind"]; readonly attribute: string } | undefined;
}

/** The context in which a source is opened. */
export interface OpenContext {
  /** The source's name in the configuration, for messages. */
  readonly name: string;
  /** The configuration file's folder: relative paths start there. */
  readonly folder: string;
  /** Where the configuration has a text of the options: `rollcall.yaml:11`. Absent: that is not known. */
  readonly placeOf?: ((text: string) => string | undefined) | undefined;
  /** What providers have pushed. Absent: there is no state that has it. */
  readonly inboxes?: Pick<Inboxes, "read"> | undefined;
}

/** What `rollcall init` asks a person who sets a source up. Answers become options; secrets are stored beside the file, not in it. */
export interface Question {
  /** Where the answer goes in the options: `auth.basic.username`. With `isStep`, only the name of the answer. */
  readonly option: string;
  /** The answer is no option: it decides, through `when`, what is asked next. */
  readonly isStep?: true | undefined;
  readonly message: string;
  /** What the answer is, in a list of all answers: `address`. */
  readonly label: string;
  /** Shown by nothing, and stored in a file of its own or in the environment. */
  readonly isSecret?: true | undefined;
  /** The answer may be empty; then the option is left out. */
  readonly isOptional?: true | undefined;
  readonly choices?: readonly { readonly name: string; readonly value: string }[] | undefined;
  /** The answer unless the person gives another. */
  readonly fallback?: string | undefined;
  /** Whether to ask, after the answers so far, by `option`. Default: always. */
  readonly when?: ((answers: Readonly<Record<string, string>>) => boolean) | undefined;
}

/** A kind of source: its options and how to open it. The default export of a connector's module. */
export interface Connector<Options = unknown> {
  /** The word after `connector:` in the configuration. */
  readonly name: string;
  /** Every attribute of its entries is one text: then rules that compare one with anything else are errors from the start. */
  readonly onlyTexts?: true | undefined;
  /** The options beside `connector:`, validated with the rest of the configuration. Unknown keys are errors. */
  readonly options: z.ZodType<Options>;
  /** What `rollcall init` asks for a first configuration. Absent: it is written by hand. */
  readonly questions?: readonly Question[] | undefined;
  /**
   * The first rows of a table in a form of its own, its header first, for `rollcall init`; undefined: the file is text.
   * @throws {InputError} the file is damaged, or holds several tables
   */
  firstRows?(file: string, folder: string, signal: AbortSignal): Promise<readonly (readonly string[])[] | undefined>;
  /** Opens the source. Does no I/O: a wrong path or password shows in a read. */
  open(options: Options, context: OpenContext): Source;
  /** How providers push to a source with these options. Undefined: they do not. */
  inbox?(options: Options): InboxSettings | undefined;
}

/** What the routes of inboxes need of the daemon. */
export interface InboxHost {
  /** Undefined: there is no such inbox in the configuration. */
  settingsOf(source: string): InboxSettings | undefined;
  readonly inboxes: Inboxes;
  readonly admit: Admit;
  /** Where clients reach the listener, without a slash at the end. Undefined: where the request came. */
  readonly url: () => string | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly warn: (message: string, error: unknown) => void;
}

/** A connector that comes with Rollcall. Loaded when it is used. */
export interface BuiltInConnector {
  readonly name: string;
  /** For a person who chooses: `SCIM 2.0: a server`. */
  readonly title: string;
  readonly load: () => Promise<Connector>;
}

/** An opened target: where a sync writes (decision 8). It takes its users and groups as one list, or change by change. */
export type Target = ListTarget | ObjectTarget;

/** A target that takes a list whole, and previews it. No list is ever one string in memory. */
export interface ListTarget {
  readonly takes: "list";
  /** The target's name in the configuration, for messages. */
  readonly name: string;
  /**
   * Hands the answer of `user/list`, a JSON array of principal objects (B.9), to `read` as it arrives.
   * @returns the entity tag of the list (RFC 9110, 8.8.3); undefined where the service gives none
   * @throws {UnavailableError | RefusedError} naming the target and the operation; what `read` throws
   */
  list(read: ReadList, signal: AbortSignal): Promise<string | undefined>;
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

/** Reads a list as it arrives. Called again with another answer, from the beginning, where one breaks off. */
export type ReadList = (bytes: AsyncIterable<Buffer>) => Promise<void>;

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

/** A target that is read as objects and written change by change. */
export interface ObjectTarget {
  readonly takes: "changes";
  /** The target's name in the configuration, for messages. */
  readonly name: string;
  readonly abilities: TargetAbilities;
  /**
   * Everything that is there, in batches (of about a thousand), or an error, as `Source.read` has it. Objects come before
   * the memberships that name them, or after: in any order. Memberships only where `abilities.readsMembers`. `attributes` are
   * those that rules give: of one that the target does not have, it may throw `InputError`. Absent: all that it has.
   * @throws {IncompleteReadError} completeness cannot be proven
   * @throws {UnavailableError | RefusedError} naming the target and the operation
   */
  read(context: Pick<ReadContext, "signal" | "warn" | "attributes">): AsyncIterable<readonly RemoteRecord[]>;
  /**
   * An object as it is now; undefined: it is gone.
   * @throws {UnavailableError | RefusedError} naming the target and the operation
   */
  current(kind: Kind, id: string, signal: AbortSignal): Promise<RemoteObject | undefined>;
  /**
   * Writes one change; resolves once the target has accepted it. What is already so is no error: a deleted object is gone,
   * an added member is in. A create is never sent again when its outcome is not known.
   * @returns what the target says that it has now: its id, version and attributes, where its answer has them. Of `create`
   *   always an id: an answer without one is looked up. Of `delete` and `members` undefined
   * @throws {ObjectRefusedError} the target refuses this change alone
   * @throws {RefusedError} the target refuses everything: wrong credentials, missing rights
   * @throws {UnavailableError} the outcome is not known, or nothing can be written
   */
  write(change: ObjectChange, signal: AbortSignal): Promise<RemoteObject | undefined>;
  /** As `ListTarget.check`. */
  check(signal: AbortSignal): Promise<readonly string[]>;
  /** Never throws. */
  close(): Promise<void>;
}

/** What a target that is written change by change can do. */
export interface TargetAbilities {
  /** How many members one change of a group may add and remove, both together. */
  readonly membersPerChange: number;
  /** How many changes may be written at the same time. */
  readonly concurrency: number;
  /** How many changes it takes in a minute. Absent: as many as come. */
  readonly perMinute?: number | undefined;
  /** Whether `read` delivers who is in which group. */
  readonly readsMembers: boolean;
  /** Whether groups may be members of groups. */
  readonly nestsGroups: boolean;
  /** Whether a deletion is possible, and makes the object go away. */
  readonly deletes: Readonly<Record<Kind, boolean>>;
  /** Whether an object keeps its id under another name. */
  readonly renames: Readonly<Record<Kind, boolean>>;
}

/** A user or a group as a target has it. */
export interface RemoteObject {
  readonly kind: Kind;
  /** The target's own immutable id. */
  readonly id: string;
  /** What the target knows it by: `userName`, the `displayName` of a group. */
  readonly name: string;
  /** Differs whenever the object does (RFC 7644, 3.14). Absent: the target does not say. */
  readonly version?: string | undefined;
  /** The declared attributes that it has. */
  readonly attributes: Readonly<Record<string, PrincipalValue>>;
}

/** A member of a group of a target. */
export interface MemberId {
  /** The target's id of the member. */
  readonly id: string;
  /** Absent: the target does not say. */
  readonly kind?: Kind | undefined;
}

/** A membership as a target has it. */
export interface RemoteMembership {
  readonly kind: "membership";
  /** The target's id of the group. */
  readonly group: string;
  readonly member: MemberId;
}

export type RemoteRecord = RemoteObject | RemoteMembership;

/** What is written to a target at once: one object, or members of one group, as many as `membersPerChange` allows. */
export type ObjectChange =
  | {
      readonly action: "create";
      readonly kind: Kind;
      readonly name: string;
      readonly attributes: Readonly<Record<string, PrincipalValue>>;
    }
  | {
      readonly action: "update";
      readonly kind: Kind;
      readonly id: string;
      /** The name that it has until then. A new one is among the attributes, as the one with `isName`. */
      readonly name: string;
      /** As it was read last. The target has the change only if that still holds, where it can. */
      readonly version?: string | undefined;
      /** What changes. Null: it is cleared. */
      readonly attributes: Readonly<Record<string, PrincipalValue | null>>;
      /** Everything as it will be, for servers that take whole objects alone. */
      readonly whole: Readonly<Record<string, PrincipalValue>>;
    }
  | {
      readonly action: "delete";
      readonly kind: Kind;
      readonly id: string;
      readonly name: string;
      readonly version?: string | undefined;
    }
  | {
      readonly action: "members";
      /** The target's id of the group. */
      readonly group: string;
      readonly name: string;
      readonly add: readonly MemberId[];
      readonly remove: readonly MemberId[];
    };

/** A target connector that comes with Rollcall. Loaded when it is used. */
export interface BuiltInTargetConnector {
  readonly name: string;
  readonly load: () => Promise<TargetConnector>;
}

/** A kind of target: its options, what it can hold, and how to open it. The default export of a target connector's module. */
export interface TargetConnector<Options = unknown> {
  /** The word after `connector:` in the configuration. */
  readonly name: string;
  /** The options beside `connector:`, validated with the rest of the configuration. Unknown keys are errors. */
  readonly options: z.ZodType<Options>;
  /** The attributes of its users and groups (decision 8). Does no I/O. */
  declare(options: Options): readonly Attribute[];
  /** What identifies the target, whatever its name in the configuration and however it is used: its URL. Never a secret. */
  place(options: Options): string;
  /** Opens the target. Does no I/O: a wrong address or token shows in `check` or `read`. */
  open(options: Options, context: OpenContext): ObjectTarget;
}
