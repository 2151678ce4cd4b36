import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { InputError } from "#errors.ts";
import type { Attempt } from "#notify/delivery.ts";
import { testChannel } from "#notify/notifier.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodes, listOf } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  const test = common(command.command("test"))
    .argument("[channel]", "the channel (default: all)")
    .description("send a test through every notification channel, or through one");
  help(test, {
    examples: ["rollcall notify test", "rollcall notify test operations"],
    exits: { 0: "every channel accepted it", 1: "one did not" },
  }).action((channel: string | undefined, options: CommonOptions) =>
    runner.runWithContext(options, (context) => notifyTest(context, channel)),
  );
}

/** `rollcall notify test`: sends a test through every channel of the configuration, or through one, without retries. */
export async function notifyTest(context: Context, name: string | undefined): Promise<ExitCode> {
  const { configuration, output, interruption } = context;
  const { notifications, file } = configuration;
  const names = Object.keys(notifications);
  if (names.length === 0) throw new InputError(`${file} has no \`notifications:\`, so there is no channel to test`);
  if (name !== undefined && !names.includes(name))
    throw new InputError(`no channel is called ${name}: ${listOf(names)}`);
  const results: { channel: string; by: string; accepted?: string; problem?: string; warning?: string }[] = [];
  for (const [each, channel] of Object.entries(notifications)) {
    if (name !== undefined && each !== name) continue;
    output.progress(`${each}: sending …`);
    const attempt = await testChannel(channel, interruption.stop);
    results.push({ channel: each, by: channel.by, ...shown(attempt) });
    if (!output.json) await output.write(`${each} (${channel.by}): ${inWords(attempt)}\n`);
  }
  if (output.json) await output.write(`${JSON.stringify({ tested: results }, undefined, 2)}\n`);
  return results.some(({ problem }) => problem !== undefined) ? exitCodes.failed : exitCodes.done;
}

function shown(attempt: Attempt): { accepted?: string; warning?: string } | { problem: string } {
  return "accepted" in attempt ? attempt : { problem: attempt.problem };
}

function inWords(attempt: Attempt): string {
  if (!("accepted" in attempt)) return `not accepted: ${attempt.problem}`;
  return `accepted by ${attempt.accepted}${attempt.warning === undefined ? "" : `; ${attempt.warning}`}`;
}
