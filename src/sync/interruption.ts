import { command } from "#commands.ts";
import { UnavailableError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";

/**
 * How a run is stopped. Before the apply, `stop` ends it at once, with nothing changed. During the apply, the run waits for
 * the answer, verifies it and writes it down; only `abandon` ends that too, and then the outcome is unknown.
 */
export interface Interruption {
  readonly stop: AbortSignal;
  readonly abandon: AbortSignal;
}

/** The interruption of one run: which signal counts now, and what an error means. */
export interface Watch {
  /** The signal for the next operation. */
  signal(): AbortSignal;
  /** From now on only `abandon` counts. Throws the reason if the run was stopped already. */
  enterApply(): void;
  /** The error to show: who stopped the run, instead of what the stop broke. */
  explain(error: unknown): unknown;
  end(): void;
}

export function watch(connection: Connection, { stop, abandon }: Interruption): Watch {
  let current = AbortSignal.any([stop, abandon]);
  const interrupt = (): void => {
    connection.interrupt();
  };
  current.addEventListener("abort", interrupt);
  const end = (): void => {
    current.removeEventListener("abort", interrupt);
  };
  let applying = false;
  return {
    signal: () => current,
    enterApply: () => {
      current.throwIfAborted();
      end();
      applying = true;
      current = abandon;
      current.addEventListener("abort", interrupt);
    },
    explain: (error) => {
      if (!current.aborted) return error;
      if (!applying) return current.reason;
      return new UnavailableError(
        "abandoned while the list was being applied: the service has made either all of the changes or none. " +
          `\`${command("plan")}\` shows which`,
        { cause: error },
      );
    },
    end,
  };
}
