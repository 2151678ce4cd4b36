import { createInterface } from "node:readline/promises";
import type { Context } from "#cli/context.ts";

/** Asks at the terminal whether to do it; no answer is no yes. @throws the reason when the command is interrupted */
export async function confirmed({ interruption, output }: Context, question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // While it asks, the keys come here: Ctrl-C is no signal then.
  terminal.on("SIGINT", () => process.emit("SIGINT"));
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal: interruption.stop });
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    output.say("");
    interruption.stop.throwIfAborted();
    // Ctrl-D.
    return false;
  } finally {
    terminal.close();
  }
}
