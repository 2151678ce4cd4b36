import type { SourceRecord } from "#connector.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import type { CompiledRules } from "#principals/compile.ts";
import type { Entry } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import type { Sync } from "#sync/sync.ts";
import type { RehearsalTargetOptions } from "./target.ts";

/** What incidents are made of: one read of the sources, and the target as the plan of it leaves it. */
export interface World {
  /** Has the table `record` of the spool, and `principal (kind, name, source, source_id, members)` made of it. */
  readonly connection: Connection;
  /** The same table, for other databases. */
  readonly principals: string;
  readonly sync: Sync;
  readonly rules: Rules;
  /** Compiles others. @throws {InputError} they are not valid */
  readonly compile: (rules: Rules) => CompiledRules;
  readonly workbench: Workbench;
  /** The file with the target's list. */
  readonly state: string;
}

/** What has gone wrong in one incident. */
export interface Injection {
  /** In one line, with numbers: `600 of 1,200 users below ou=Sales,dc=example,dc=com left out`. */
  readonly injected: string;
  /** What becomes of the records of a source; called for each read. Absent: they come as they were read. */
  readonly records?: ((source: string) => Change | undefined) | undefined;
  /** True: whoever looks a record up by its id still finds it. Otherwise the source knows no more than it delivers. */
  readonly stillThere?: boolean | undefined;
  readonly renamed?: { readonly kind: Entry["kind"]; readonly attribute: string } | undefined;
  readonly rules?: CompiledRules | undefined;
  readonly target?: Pick<RehearsalTargetOptions, "lists" | "forgets"> & { readonly state?: string };
}

/** A record as it comes now; undefined: it does not. May throw what ends the read. */
type Change = (record: SourceRecord) => SourceRecord | undefined;

/** The ways in which an incident can happen here; or why it cannot. */
export type Inject = (world: World) => Promise<readonly Injection[] | string>;

/** How many rows of `record` there are of a condition. */
export async function count(connection: Connection, where: string): Promise<number> {
  const [row] = await connection.rows<{ n: number }>(`SELECT count(*)::INTEGER AS n FROM record WHERE ${where}`);
  return row?.n ?? 0;
}

/** The records of one source change. */
export function only(source: string, change: () => Change): NonNullable<Injection["records"]> {
  return (name) => (name === source ? change() : undefined);
}
