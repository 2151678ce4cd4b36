import type { CompiledRules } from "./compile.ts";
import { resolutionTables, resolve } from "./resolution.ts";
import type { Resolution } from "./resolution.ts";
import type { Statements } from "./quarantine.ts";
import { stage, stagedTables } from "./stage.ts";
import type { Observer, OpenSource, StageConnection, Staged } from "./stage.ts";

/** What assembly needs of a DuckDB connection. Nothing else may use it meanwhile. */
export interface AssemblyConnection extends StageConnection {
  /** Stops the statement that is running. */
  interrupt(): void;
}

export interface AssemblyOptions {
  /** The name of the table that is made. */
  readonly table: string;
  readonly signal: AbortSignal;
  /** Called when all records are in tables, and what follows is SQL over them. */
  readonly staged?: () => Promise<void>;
  /** Called now and then with the number of records read so far. */
  readonly progress?: (records: number) => void;
  readonly observer?: Observer;
}

/** What became of the records. Every entry is a user, a group, excluded or quarantined. */
export interface Assembly extends Resolution, Staged {}

/**
 * Makes principals of what sources deliver: three tables, and what there is to say about them.
 *
 * - `options.table`: the columns of `assembledDdl`; one row for each principal, the configuration's groups among them.
 * - `quarantined (kind, name, source, source_id, origin, reason)`: the entries that are in scope, but of which it is
 *   unknown what they become: a rule fails; another one has the same id or name; a reference may mean this one or
 *   another. `name` is null when not even that is known. Unknown is not absent: what the target has of them stays.
 * - `contributor (kind, name, source, source_id)`: the further entries that a principal was made of, where entries of
 *   several sources are joined.
 *
 * Keys mean something only within their source. Entries that the rules exclude are as good as absent: they make
 * neither an id nor a name nor a key ambiguous. Memberships in quarantined groups are left out, since they stay what
 * they are in the target. All text is in Unicode Normalization Form C.
 *
 * Nothing is kept in JavaScript that grows with the directory. When it fails, the tables are gone.
 * @throws the error of a source, or the signal's reason
 */
export async function assemble(
  connection: AssemblyConnection,
  sources: readonly OpenSource[],
  rules: CompiledRules,
  options: AssemblyOptions,
): Promise<Assembly> {
  const { signal } = options;
  const table = `"${options.table.replaceAll('"', '""')}"`;
  const interrupt = (): void => {
    connection.interrupt();
  };
  signal.addEventListener("abort", interrupt);
  try {
    signal.throwIfAborted();
    const staged = await stage(connection, sources, rules, options);
    await options.staged?.();
    const resolution = await resolve(connection, table, rules, options.observer !== undefined);
    await options.observer?.assembled(connection);
    signal.throwIfAborted();
    return { ...staged, ...resolution };
  } catch (error) {
    await drop(connection, [table, "quarantined", "contributor"]);
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener("abort", interrupt);
    await drop(connection, [...stagedTables, ...resolutionTables]);
  }
}

async function drop(connection: Statements, tables: readonly string[]): Promise<void> {
  await connection.run(tables.map((table) => `DROP TABLE IF EXISTS ${table};`).join(" "));
}
