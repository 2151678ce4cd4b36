import { join } from "node:path";
import { command } from "#commands.ts";
import { UnavailableError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import type { StateFiles } from "#state/store.ts";

/**
 * How a run is stopped. Before the apply, `stop` ends it at once, with nothing changed. During the apply, the run waits for
 * the answer, verifies it and writes it down; only `abandon` ends that too, and then the outcome is unknown.
 */
export interface Interruption {
  readonly stop: AbortSignal;
  readonly abandon: AbortSignal;
}

/** The interruption of one run: which signal counts now, and what an error means. */
export class Watch {
  readonly #connection: Connection;
  readonly #abandon: AbortSignal;
  #current: AbortSignal;
  #isApplying = false;

  constructor(connection: Connection, { stop, abandon }: Interruption) {
    this.#connection = connection;
    this.#abandon = abandon;
    this.#current = AbortSignal.any([stop, abandon]);
    this.#current.addEventListener("abort", this.#interrupt);
  }

  /** The signal for the next operation. */
  signal(): AbortSignal {
    return this.#current;
  }

  /** From now on only `abandon` counts. Throws the reason if the run was stopped already. */
  enterApply(): void {
    this.#current.throwIfAborted();
    this.end();
    this.#isApplying = true;
    this.#current = this.#abandon;
    this.#current.addEventListener("abort", this.#interrupt);
  }

  /** The error to show: who stopped the run, instead of what the stop broke. */
  explain(error: unknown): unknown {
    if (!this.#current.aborted) return error;
    if (!this.#isApplying) return this.#current.reason;
    return new UnavailableError(
      "abandoned while the list was being applied: the service has made either all of the changes or none. " +
        `\`${command("plan")}\` shows which`,
      { cause: error },
    );
  }

  end(): void {
    this.#current.removeEventListener("abort", this.#interrupt);
  }

  readonly #interrupt = (): void => {
    this.#connection.interrupt();
  };
}

/** Does something in a workbench of its own. What is interrupted ends with the reason of that. */
export async function inWorkbench<Result>(
  options: { readonly files: Pick<StateFiles, "folder">; readonly memory: number; readonly interruption: Interruption },
  work: (workbench: Workbench, watching: Watch) => Promise<Result>,
): Promise<Result> {
  await using workbench = await Workbench.open({ folder: join(options.files.folder, "work"), memory: options.memory });
  const watching = new Watch(workbench.connection, options.interruption);
  try {
    return await work(workbench, watching);
  } catch (error) {
    throw watching.explain(error);
  } finally {
    watching.end();
  }
}
