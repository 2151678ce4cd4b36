import { hash } from "node:crypto";
import { basename } from "node:path";
import { verifyAudit } from "#state/audit/verify.ts";
import type { Verification } from "#state/audit/verify.ts";
import type { AuditChain } from "#state/audit/chain.ts";
import type { Access } from "./access.ts";
import { digestOfInbox } from "#state/inbox/copy.ts";
import type { StoredInboxes } from "#state/inbox/copy.ts";
import type { Hashes } from "./parts.ts";
import type { RunRecord, SyncState } from "./record.ts";

/** All that a store has, while nobody writes it. */
export interface Contents {
  /** The oldest first. */
  readonly runs: readonly RunRecord[];
  readonly syncs: Readonly<Record<string, SyncState>>;
  readonly audit: AuditChain;
  readonly access: Access;
  readonly files: Hashes;
  /** A part of one of its files. */
  part(path: string, part: number): Promise<Buffer>;
  readonly inboxes: StoredInboxes;
  /** How many ends of runs no daemon has told people of. */
  readonly untold: number;
}

/** A store that a state is copied from, or to. */
export interface Copyable {
  /** @throws {InputError} when it has no state, or somebody uses it */
  read<Result>(work: (contents: Contents) => Promise<Result>): Promise<Result>;
  /**
   * Takes a whole state, all of it or nothing.
   * @param check gets what has arrived, before it counts
   * @throws {InputError} when it has a state already, somebody uses it, or it cannot take an audit log that is not whole
   */
  write(contents: Contents, check: (arrived: Contents) => Promise<void>): Promise<void>;
}

/** A part of the state that was copied, and is the same on both sides. */
export interface CopiedState {
  /** `runs`, `audit log`, `ledgers`. */
  readonly what: string;
  /** Of runs, syncs, entries or files. */
  readonly count: number;
  /** Of all of them. */
  readonly digest: string;
}

export interface Copied {
  readonly parts: readonly CopiedState[];
  /** What is wrong with the audit log: it is copied as it is. */
  readonly broken?: Verification["broken"];
  /** How many ends of runs no daemon has told people of: nobody does any more. */
  readonly untold: number;
}

/**
 * Copies the state of a store, which is only read, into one that has none. What has arrived is compared before it counts.
 * @throws what `read` and `write` throw
 */
export function copyState(from: Copyable, to: Copyable): Promise<Copied> {
  return from.read(async (contents) => {
    const sent = await textsOf(contents);
    let parts: readonly CopiedState[] = [];
    await to.write(contents, async (arrived) => {
      parts = compared(sent.texts, (await textsOf(arrived)).texts);
    });
    return { parts, broken: sent.broken, untold: contents.untold };
  });
}

/** Beginnings of the paths of files, and what these are called. */
const kinds = {
  "ledgers/": "ledgers",
  "runs/": "files of stored plans",
  "baselines/": "files of baselines",
  "exports/": "export records",
  "outbox/": "files of notifications",
  "configuration.json": "configuration.json",
} as const;

/** The files of a state, as beginnings of paths; besides those that the audit log has put aside. */
export const copiedFiles: readonly string[] = [...Object.keys(kinds), "aside/"];

/**
 * What the audit log has put aside as it was found. Where the log has come from another store it is in the folder `aside`, since
 * the log does not go on from it there.
 */
export const isPutAside = (path: string): boolean => /^audit[^/]*\.(?:damaged|torn)-/.test(basename(path));

type Texts = Readonly<Record<string, readonly string[]>>;

/** What must be the same on both sides, as texts. */
async function textsOf({ runs, syncs, audit, access, files, inboxes }: Contents): Promise<{
  readonly texts: Texts;
  readonly broken: Verification["broken"];
}> {
  // From its first entry on: earlier ones may be archived elsewhere.
  const lines: string[] = [];
  const { broken } = await verifyAudit(audit, {
    from: 0,
    expected: await audit.head(),
    visit: ({ hash }) => void lines.push(hash),
  });
  const filesOf = (name: (path: string) => string | undefined): string[] =>
    [...files].flatMap(([path, parts]) => {
      const named = name(path);
      return named === undefined ? [] : [[named, ...parts].join("\n")];
    });
  const texts: Record<string, readonly string[]> = {
    runs: runs.map((run) => JSON.stringify(run)),
    syncs: Object.entries(syncs).map((each) => JSON.stringify(each)),
    "audit log": lines,
    accounts: access.accounts.map((each) => JSON.stringify(each)),
    "access tokens": access.tokens.map((each) => JSON.stringify(each)),
  };
  for (const [beginning, what] of Object.entries(kinds))
    texts[what] = filesOf((path) => (path.startsWith(beginning) ? path : undefined));
  const pushed: string[] = [];
  for (const source of inboxes.sources) {
    const digest = await inboxes.read(source, (database) => digestOfInbox(source, database));
    pushed.push(JSON.stringify([source, digest]));
  }
  texts["inboxes"] = pushed;
  texts["audit files put aside"] = filesOf((path) => (isPutAside(path) ? basename(path) : undefined));
  return { texts, broken };
}

const always: ReadonlySet<string> = new Set(["runs", "syncs", "audit log"]);

function compared(sent: Texts, arrived: Texts): CopiedState[] {
  return Object.entries(sent).flatMap(([what, texts]) => {
    const [digest, other] = [texts, arrived[what] ?? []].map(digestOf);
    if (digest !== other) throw new Error(`the ${what} arrived altered; nothing was copied`);
    return texts.length === 0 && !always.has(what) ? [] : [{ what, count: texts.length, digest: digest ?? "" }];
  });
}

function digestOf(texts: readonly string[]): string {
  return hash("sha256", texts.toSorted().join("\n\n")).slice(0, 16);
}
