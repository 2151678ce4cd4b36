import { progressOf } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { readStateForPlan } from "#daemon/data-folder.ts";
import { describeError, exitCodeOf, worstOf } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { openSync } from "#daemon/wiring.ts";
import { errorDocument } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Stage } from "#state/record.ts";
import type { Reader } from "#state/store.ts";
import type { Interruption } from "#sync/interruption.ts";
import type { Sync } from "#sync/sync.ts";

type Failed = (sync: string, error: unknown) => Promise<void> | void;

/** Does the work of a sync when its turn comes. */
type Turns = (sync: string, work: () => Promise<ExitCode>) => Promise<ExitCode>;

function oneAfterAnother(): Turns {
  const queue = createQueue();
  return (_, work) => queue(work);
}

/**
 * Does the same with several syncs. One that fails does not keep the others from their turn, unless the command is cancelled.
 * @param failed shows why
 * @param inTurn when each has its turn. Default: one after another
 * @returns the worst of their exit codes
 */
export async function eachSync(
  { interruption }: Pick<Context, "interruption">,
  syncs: readonly string[],
  failed: Failed,
  work: (sync: string) => Promise<ExitCode>,
  inTurn: Turns = oneAfterAnother(),
): Promise<ExitCode> {
  let isCancelled = false;
  const doOne = async (sync: string): Promise<ExitCode> => {
    try {
      interruption.stop.throwIfAborted();
      return await work(sync);
    } catch (error) {
      // That the command was cancelled is told once.
      const isTold = isCancelled;
      isCancelled = interruption.stop.aborted;
      if (!isTold) await failed(sync, error);
      return exitCodeOf(error);
    }
  };
  return worstOf(await Promise.all(syncs.map((sync) => inTurn(sync, () => doOne(sync)))));
}

/** Shows why one failed. @param documents instead of the terminal */
export function failuresTo(output: Output, documents: object[] | undefined): Failed {
  return (sync, error) => {
    if (documents === undefined) output.say(`${sync}: ${describeError(error)}`);
    else documents.push({ sync, error: errorDocument(error) });
  };
}

/** What is needed to look at a sync. */
interface Looking {
  readonly state: Reader;
  readonly memory: number;
  readonly interruption: Interruption;
  readonly progress: (stage: Stage, records?: number) => void;
  readonly warn: (message: string) => void;
}

/** Opens a sync of the configuration, which is looked at and not changed. Shows its progress and its warnings. */
export async function withSync<Result>(
  context: Context,
  name: string,
  work: (sync: Sync, looking: Looking) => Promise<Result>,
): Promise<Result> {
  const { configuration, embedded, interruption, observe, output } = context;
  const sync = await openSync(configuration, name, embedded, observe);
  try {
    await using state = await readStateForPlan(configuration);
    return await work(sync, {
      state,
      memory: configuration.memory,
      interruption,
      progress: progressOf(context, name),
      warn: (message) => {
        output.say(`${name}: ${message}`);
      },
    });
  } finally {
    output.progress();
    await sync.target.close();
  }
}
