import { createReadStream } from "node:fs";
import { literal } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { createChanges } from "#plan/diff.ts";
import { readPrincipals, syncArrays, writePrincipals } from "#plan/lists.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { ListTarget, ReadList, SyncRequest } from "#connector.ts";

export interface RehearsalTargetOptions {
  readonly name: string;
  readonly declared: Attributes;
  /** The file with what it has. */
  readonly state: string;
  /** Makes that file before it is listed for the first time. Absent: it is there. */
  readonly fill?: ((signal: AbortSignal) => Promise<unknown>) | undefined;
  /** The file that it answers lists with, whatever it has. */
  readonly lists?: string | undefined;
  /** True: it confirms changes, and makes none. */
  readonly forgets?: boolean | undefined;
}

/**
 * A target that exists only here, a list in a file, and has no connection to anything. Previews and applies lists as a service
 * does, over the files of a workbench.
 */
export class RehearsalTarget implements ListTarget {
  readonly takes = "list";
  readonly name: string;
  readonly #workbench: Workbench;
  readonly #options: RehearsalTargetOptions;
  /** The file with what it has now. */
  state: string;
  #generation = 0;
  #isListed = false;

  constructor(workbench: Workbench, options: RehearsalTargetOptions) {
    this.#workbench = workbench;
    this.#options = options;
    this.name = options.name;
    this.state = options.state;
  }

  async list(read: ReadList, signal: AbortSignal): Promise<undefined> {
    if (!this.#isListed) await this.#options.fill?.(signal);
    this.#isListed = true;
    await read(createReadStream(this.#options.lists ?? this.state));
  }

  async sync({ principals, applyChanges, deleteOthers }: SyncRequest, destination: string): Promise<void> {
    const { connection } = this.#workbench;
    await readPrincipals(connection, this.state, "actual");
    await readPrincipals(connection, principals, "desired");
    if (!deleteOthers)
      await connection.run("INSERT INTO desired SELECT a.* FROM actual a ANTI JOIN desired USING (kind, name)");
    await createChanges(connection, this.#options.declared, {
      actual: "actual",
      desired: "desired",
      into: "changes",
    });
    const arrays = syncArrays.map(
      ([array, action, kind]) =>
        `coalesce(list(name ORDER BY name) FILTER (action = '${action}' AND kind = '${kind}'), []) AS "${array}"`,
    );
    await connection.run(`COPY (SELECT ${arrays.join(", ")} FROM changes) TO ${literal(destination)} (FORMAT json)`);
    if (!applyChanges || this.#options.forgets === true) return;
    const next = this.#workbench.file(`${this.name}-${++this.#generation}.json`);
    await writePrincipals(connection, next);
    this.state = next;
  }

  async check(): Promise<[]> {
    return [];
  }

  async close(): Promise<void> {}
}
