import { randomBytes } from "node:crypto";
import type { Source, Target } from "#connector.ts";
import type { DriftRules, Limits } from "#plan/limits.ts";
import type { DepartureRules } from "#plan/departures.ts";
import type { Protection } from "#plan/protect.ts";
import type { CompiledRules } from "#principals/compile.ts";
import type { CompiledExpectation } from "#principals/expectations.ts";
import type { LedgerOptions } from "#state/ledger/ledger.ts";

/** One sync, opened: sources + rules + target. */
export interface Sync {
  readonly name: string;
  readonly sources: readonly SyncSource[];
  /** Identifies everything that a read depends on besides the sources' data. Absent: earlier reads are of no use. */
  readonly digest?: string;
  readonly rules: CompiledRules;
  readonly target: Target;
  /** Identifies the target's service, whatever its name: a sync owns principals there. */
  readonly place: string;
  readonly protection: Protection;
  readonly departures: DepartureRules;
  readonly limits: Limits;
  /** Whether the causes of changes are found: what the rules read is stored with the last applied run then. */
  readonly causes: boolean;
  readonly drift: DriftRules;
  /** What must be true of what a run leaves in the target. Absent: nothing is expected. */
  readonly expectations?: readonly CompiledExpectation[] | undefined;
  /** Names of groups in which memberships stay that somebody added by hand; `*` stands for any characters. */
  readonly keepManual: readonly string[];
  /** What the sync is configured to do, without secrets: changes of it are causes. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The password of every created user; absent: a random one for the run, known to nobody. */
  readonly defaultPassword?: string;
}

/** What `Ledger.open` needs to know of a sync. */
export function ledgerOf({ name, place, protection }: Sync): Pick<LedgerOptions, "place" | "sync" | "others"> {
  return { place, sync: name, others: protection.others };
}

/** A sync, as far as it matters what its target declares. */
export interface Declaring {
  readonly rules: Pick<CompiledRules, "declared">;
}

export interface SyncSource {
  readonly name: string;
  /** True: when it cannot be read, everything that came from it stays as it is. */
  readonly optional?: boolean;
  /**
   * How long, in milliseconds, a source that reports no changes need not be read. Absent: every run reads it.
   */
  readonly fullReadEvery?: number;
  /** Identifies the source's options. Absent: what earlier reads counted is of no use. */
  readonly digest?: string;
  readonly source: Source;
}

/** The password for every created user. */
export function passwordOf({ defaultPassword }: Sync): string {
  return defaultPassword ?? randomBytes(24).toString("base64url");
}
