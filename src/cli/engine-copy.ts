import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { interruptMessages } from "#daemon/context.ts";
import { InputError } from "#errors.ts";
import { formatNumber, pluralize } from "#text.ts";
import type { Composition } from "#daemon/composition.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  const copy = common(command.command("copy"))
    .description("copy users, groups, sessions and tables into a PostgreSQL database, and compare what arrived")
    .requiredOption("--to <url>", "postgres://user@host/database; the password may be in PGPASSWORD")
    .option("--sslrootcert <file>", "a PEM file with the certificate authorities to trust");
  help(copy, { examples: ["rollcall engine copy --to postgres://rollcall@db.example.com/rollcall"] }).action(
    (options: CommonOptions & EngineCopyOptions) =>
      runner.runWithContext(
        options,
        (context) => engineCopy(context, runner.composition, options),
        interruptMessages.copy,
      ),
  );
}

export interface EngineCopyOptions {
  readonly to: string;
  readonly sslrootcert?: string;
}

/**
 * `rollcall engine copy --to URL`: copies users, groups, sessions and tables from the data folder into a PostgreSQL database,
 * and compares what arrived. The data folder stays as it is.
 */
export async function engineCopy(
  { configuration, interruption, output }: Context,
  composition: Composition,
  { to, sslrootcert }: EngineCopyOptions,
): Promise<ExitCode> {
  if (configuration.service === undefined)
    throw new InputError("the configuration has no `service:`; only a service has users and tables to copy");
  if (configuration.service.engine !== "duckdb")
    throw new InputError("service.engine is PostgreSQL already; only what the engine duckdb has stored can be copied");
  const parts: { what: string; rows: number; digest: string }[] = [];
  await composition.copyEngine(configuration, {
    url: to,
    sslrootcert,
    copied: async (part) => {
      parts.push(part);
      if (!output.json) await output.write(`${part.what}: ${pluralize(part.rows, "row")}, digest ${part.digest}\n`);
    },
    signal: interruption.stop,
  });
  if (output.json) {
    await output.write(`${JSON.stringify({ copied: parts })}\n`);
    return exitCodes.done;
  }
  const rows = parts.reduce((sum, part) => sum + part.rows, 0);
  await output.write(
    `All ${formatNumber(rows)} rows arrived unchanged. Now set service.engine to { postgres: … } and start the service. ` +
      "The data folder is as it was: to go back, set service.engine to duckdb. Changes made since the copy are lost then.\n",
  );
  return exitCodes.done;
}
