import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { loadPinboards } from "#config/pinboards.ts";
import { pluralize } from "#text.ts";
import type { Composition } from "#daemon/composition.ts";
import { load } from "#daemon/context.ts";
import type { Sinks } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command), {
    examples: ["rollcall validate", "rollcall validate --config new.yaml --json"],
    exits: { 0: "valid", 1: "not valid" },
  }).action((options: CommonOptions) =>
    runner.run(options, (file, sinks) => validate(file, runner.composition, sinks)),
  );
}

/**
 * `rollcall validate`: checks the configuration and the pinboards, and connects to nothing: for an editor or a pipeline.
 * With `--json`: `{"configuration", "valid": true, "sources", "targets", "syncs", "notifications", "pinboards", "warnings"}`.
 * @throws {InputError} naming every problem with its line
 */
export async function validate(file: string, composition: Composition, sinks: Sinks): Promise<ExitCode> {
  const { output } = sinks;
  const configuration = await load(file, composition);
  const { sources, targets, syncs, notifications, service, warnings } = configuration;
  const pinboards = service?.pinboards === undefined ? [] : await loadPinboards(service.pinboards);
  const names = {
    sources: Object.keys(sources),
    targets: Object.keys(targets),
    syncs: Object.keys(syncs),
    notifications: Object.keys(notifications),
    pinboards: pinboards.map(({ name }) => name),
  };
  if (output.json) {
    const document = { configuration: configuration.file, valid: true, ...names, warnings };
    await output.write(`${JSON.stringify(document, undefined, 2)}\n`);
    return exitCodes.done;
  }
  for (const warning of warnings) output.say(warning);
  const words = {
    sources: "source",
    targets: "target",
    syncs: "sync",
    notifications: "channel",
    pinboards: "pinboard",
  };
  const parts = (Object.keys(words) as (keyof typeof words)[]).flatMap((each) =>
    names[each].length === 0 ? [] : [pluralize(names[each].length, words[each])],
  );
  if (service !== undefined) parts.push("a service");
  await output.write(`configuration ${configuration.file}: valid (${parts.join(", ")})\n`);
  return exitCodes.done;
}
