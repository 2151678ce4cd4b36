import type { Command } from "commander";
import { exitCodes } from "#daemon/output.ts";
import { help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";

export function declare(command: Command, runner: Runner): void {
  command.option("--json", "one JSON document on standard output");
  help(command, { examples: ["rollcall version", "rollcall version --json"] }).action((options: CommonOptions) =>
    runner.run(options, async (_file, { output }) => {
      const { version } = runner.composition;
      const { versions, platform, arch } = process;
      await output.write(
        output.json
          ? `${JSON.stringify({ version, node: versions.node, platform, arch })}\n`
          : `rollcall ${version} (Node.js ${versions.node}, ${platform} ${arch})\n`,
      );
      return exitCodes.done;
    }),
  );
}
