import { main } from "#main.ts";
import type { CommandAnswer, CommandRequest } from "./command.ts";

// A process that runs commands of `rollcall` one after the other: the parent sends what to run, and reads a
// command's output up to the mark on standard output and standard error.
process.on("message", (request: CommandRequest) => void run(request));
process.on("disconnect", () => process.exit());

async function run({ args, env, cwd, mark }: CommandRequest): Promise<void> {
  process.env = env;
  process.chdir(cwd);
  const code = await main([process.execPath, "rollcall", ...args]);
  process.stdout.write(mark);
  process.stderr.write(mark);
  process.send?.({ code } satisfies CommandAnswer);
}
