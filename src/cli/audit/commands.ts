import type { Command } from "commander";
import { audit, auditVerify } from "#cli/commands.ts";
import { load } from "#cli/context.ts";
import { atLeastOne, momentText } from "#cli/format.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import type { Head } from "#sync/audit/entry.ts";
import type { AuditFilter } from "#cli/audit.ts";
import { headText } from "#cli/arguments.ts";

/** The commands that read the audit file; they need no daemon and no lock. */
export function addAuditCommands(program: Command, { composition, act }: Frame): void {
  const command = common(program.command("audit"))
    .enablePositionalOptions()
    .description("list what the audit file tells: who asked for, decided and configured what, and what came of it")
    .option("--since <time>", "only from then on: a date, a time, or 7d for a week ago", momentText)
    .option("--run <run>", "only what is about this run")
    .option("--from <number>", "only from this entry on, whatever came before it", atLeastOne)
    .action((options: CommonOptions & AuditFilter) =>
      act(options, async (file, voices) => audit(await load(file, composition, voices), voices.output, options)),
    );
  common(command.command("verify"))
    .description("check that every entry of the audit file is as it was written (exit code 1: it is not)")
    .option("--head <number:hash>", "the last entry, where it is known from elsewhere than the journal", headText)
    .option("--from <number>", "only from this entry on, whatever came before it", atLeastOne)
    .action((_, verify: Command) => {
      const options = verify.optsWithGlobals<CommonOptions & { head?: Head; from?: number }>();
      return act(options, async (file, voices) =>
        auditVerify(await load(file, composition, voices), voices.output, options),
      );
    });
}
