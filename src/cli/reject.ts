import type { Command } from "commander";
import { common, help, withNotify, waitingRun } from "./flags.ts";
import type { CommonOptions, NotifyOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { interruptMessages, localActor } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { withCoordinator } from "#cli/coordinator.ts";
import { InputError } from "#errors.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { askedReason } from "./run-output.ts";
import { chosenRun } from "./known-runs.ts";

export function declare(command: Command, runner: Runner): void {
  withNotify(common(command).argument("<run>", waitingRun)).option("--reason <text>", "why");
  help(command, {
    examples: ["rollcall reject 20261121-0800 --reason 'half of the directory is missing'"],
  }).action((run: string, options: CommonOptions & NotifyOptions & { readonly reason?: string }) =>
    runner.runWithContext(
      options,
      (context) => reject({ ...context, notify: options.notify }, run, options.reason),
      interruptMessages.apply,
    ),
  );
}

/** `rollcall reject RUN`: what it has planned is not applied; the next run of its sync plans again. */
export async function reject(context: Context, id: string, reason: string | undefined): Promise<ExitCode> {
  const { output } = context;
  const why = reason ?? (await askedReason(context));
  if (why === "") throw new InputError("nothing was rejected: give a reason");
  const run = await withCoordinator(context, (coordinator) =>
    coordinator.reject(chosenRun(coordinator.runs(), id).id, { by: localActor(), reason: why }),
  );
  if (output.json) await output.write(`${JSON.stringify({ run })}\n`);
  else await output.write(`${run.sync}: run ${run.id} is rejected; the next run makes a new plan\n`);
  return exitCodes.done;
}
