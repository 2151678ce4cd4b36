import { join } from "node:path";
import { openWorkbench } from "#plan/workbench.ts";
import type { Judged, Observer } from "#principals/stage.ts";
import type { RuleTrace } from "#principals/compile.ts";
import { membershipsOf } from "#principals/membership.ts";
import type { DirectMembership } from "#principals/membership.ts";
import type { Kind } from "#principals/principal.ts";
import { makeDesired } from "./desired.ts";
import { watch } from "./interruption.ts";
import type { Interruption } from "./interruption.ts";
import { openLedger } from "./ledger.ts";
import { nearestNames, outcomesOf } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Stage, Sync } from "./sync.ts";

/** A record of a source that a name may mean, and what the rules make of it. */
export interface RecordExplanation {
  readonly source: string;
  readonly kind: Kind;
  readonly id: string;
  readonly origin: string;
  readonly rules: readonly RuleTrace[];
  readonly verdict: "included" | "excluded" | "quarantined";
  /** The principal's name, where that much is known. */
  readonly name?: string;
  /** Why it is quarantined, or which rule excluded it. */
  readonly reason?: string;
  readonly memberships: readonly DirectMembership[];
}

/** Everything that a name may mean to a sync, from the sources to the target. */
export interface Explanation {
  readonly sync: string;
  readonly target: string;
  readonly records: readonly RecordExplanation[];
  readonly outcomes: readonly Outcome[];
  /** Names that are near, where nothing was found. */
  readonly nearest: readonly string[];
}

export interface ExplainOptions {
  /** The daemon's folder for workbenches and ledgers. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  readonly progress?: (stage: Stage, records?: number) => void;
  readonly warn: (message: string) => void;
}

/** So many records and principals are explained; a name that means more means nothing. */
const limit = 20;

/**
 * Follows whatever a name means (a principal's name, display name or mail, a record's id, or a value that the rules
 * `name` and `mail` read; upper and lower case are the same) from the sources to what a run would do with it. It reads
 * what a run reads, and changes nothing.
 * @throws what `run` throws before it applies
 */
export async function explain(sync: Sync, wanted: string, options: ExplainOptions): Promise<Explanation> {
  const workbench = await openWorkbench({ folder: join(options.folder, "work"), memory: options.memory });
  const watching = watch(workbench.connection, options.interruption);
  try {
    await openLedger(workbench.connection, {
      folder: join(options.folder, "ledgers"),
      place: sync.place,
      sync: sync.name,
      mode: "read",
      signal: watching.signal(),
    });
    const finder = findRecords(sync, wanted);
    await makeDesired(sync, workbench, { ...options, observer: finder.observer, signal: watching.signal() });
    const records = await finder.records();
    const names = records.flatMap(({ kind, name }) => (name === undefined ? [] : [{ kind, name }]));
    const outcomes = await outcomesOf(workbench.connection, sync, { wanted: fold(wanted), names, limit });
    const found = records.length + outcomes.length > 0;
    const nearest = found ? [] : await nearestNames(workbench.connection, fold(wanted));
    return { sync: sync.name, target: sync.target.name, records, outcomes, nearest };
  } catch (error) {
    throw watching.explain(error);
  } finally {
    watching.end();
    await workbench.close();
  }
}

/** Text as it is compared: what looks the same but for its case is the same. */
function fold(text: string): string {
  return text.normalize("NFC").toLowerCase();
}

function findRecords(
  { rules }: Sync,
  wanted: string,
): { observer: Observer; records: () => Promise<RecordExplanation[]> } {
  const sought = fold(wanted);
  const found: Judged[] = [];
  const memberships = new Map<number, DirectMembership[]>();
  const held = new Map<number, string>();
  const isIt = (text: unknown): boolean => typeof text === "string" && fold(text) === sought;
  const isMeant = ({ entry, verdict }: Judged): boolean => {
    if (isIt(entry.id) || entry.keys.some(isIt) || ("name" in verdict && isIt(verdict.name))) return true;
    if (verdict.verdict === "included" && (isIt(verdict.mail) || isIt(verdict.displayName))) return true;
    return rules.identifying(entry).some((value) => (Array.isArray(value) ? value.some(isIt) : isIt(value)));
  };
  const explained = (judged: Judged): RecordExplanation => {
    const { seq, source, entry, verdict } = judged;
    const traces = rules.trace(entry);
    const reason = held.get(seq) ?? (verdict.verdict === "excluded" ? whyExcluded(entry.kind, traces) : undefined);
    return {
      source,
      kind: entry.kind,
      id: entry.id,
      origin: entry.origin,
      rules: traces,
      verdict: held.has(seq) ? "quarantined" : verdict.verdict,
      ...("name" in verdict && verdict.name !== undefined ? { name: verdict.name } : {}),
      ...(reason === undefined ? {} : { reason }),
      memberships: memberships.get(seq) ?? [],
    };
  };
  return {
    observer: {
      judged: (judged) => {
        if (found.length < limit && isMeant(judged)) found.push(judged);
      },
      assembled: async (connection) => {
        for (const { seq } of found) {
          memberships.set(seq, await membershipsOf(connection, seq));
          const [row] = await connection.rows<{ reason: string | null }>(
            `SELECT string_agg(DISTINCT reason, '; ' ORDER BY reason) AS reason FROM held WHERE seq = ${seq}`,
          );
          if (row?.reason !== null && row?.reason !== undefined) held.set(seq, row.reason);
        }
      },
    },
    records: async () => found.map(explained),
  };
}

function whyExcluded(kind: Kind, traces: readonly RuleTrace[]): string {
  const rule = traces.find(
    ({ rule, value }) =>
      (rule.endsWith(".include") && value === false) || (rule.endsWith(".exclude") && value === true),
  );
  return rule === undefined
    ? `the sync has no rules for ${kind}s`
    : `the rule ${rule.rule} gives ${String(rule.value)}`;
}
