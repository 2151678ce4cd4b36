import { randomBytes } from "node:crypto";
import type { Source } from "#connector.ts";
import type { DepartureRules } from "#plan/departures.ts";
import type { Limits } from "#plan/limits.ts";
import type { Protection } from "#plan/protect.ts";
import type { CompiledRules } from "#principals/compile.ts";
import type { Target } from "./ports.ts";

/** One sync, opened: sources + rules + target. */
export interface Sync {
  readonly name: string;
  readonly sources: readonly SyncSource[];
  /** Changes with everything but the sources' data that a read depends on. Absent: nothing is known from read to read. */
  readonly digest?: string;
  readonly rules: CompiledRules;
  readonly target: Target;
  /** What tells the target from every other, and stays while it is the same service: what a sync owns, it owns there. */
  readonly place: string;
  readonly protection: Protection;
  readonly departures: DepartureRules;
  readonly limits: Limits;
  /** The password of every user that is created; absent: a random one for this run, known to nobody. */
  readonly defaultPassword?: string;
}

export interface SyncSource {
  readonly name: string;
  /** True: when it cannot be read, what the ledger says came from it stays as it is. */
  readonly optional?: boolean;
  /**
   * How long, in milliseconds, a source that tells that nothing has changed need not be read. Absent: it is read at every
   * run.
   */
  readonly fullReadEvery?: number;
  readonly source: Source;
}

/** The password to give to every user that is created. */
export function passwordOf({ defaultPassword }: Sync): string {
  return defaultPassword ?? randomBytes(24).toString("base64url");
}

/** The stages of a run, in their order. A dry run ends after `preview`. */
export type Stage = "read" | "list" | "plan" | "preview" | "apply" | "verify";
