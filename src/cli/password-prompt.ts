import { readFile } from "node:fs/promises";
import { addAbortSignal } from "node:stream";
import { text } from "node:stream/consumers";
import { InputError, reasonOf } from "#errors.ts";
import type { Context } from "#daemon/context.ts";
import type { Output } from "#daemon/output.ts";
import { conceal } from "#redact.ts";
import { prompts } from "#cli/init/answers.ts";

/** Where a command gets a password. */
export interface PasswordOptions {
  readonly passwordFile?: string;
  readonly generate?: boolean;
}

/**
 * A new password: read, generated, or asked for twice, unseen. From then on it appears in nothing that this process logs.
 * @throws {InputError} nobody can be asked, or the answers differ
 */
export async function passwordOf(
  { output, interruption }: Pick<Context, "output" | "interruption">,
  { passwordFile, generate = false }: PasswordOptions,
  generated: () => string,
): Promise<{ readonly password: string; readonly isGenerated: boolean }> {
  if (generate && passwordFile !== undefined) throw new InputError("use either --generate or --password-file");
  // It is the result: it is not concealed.
  if (generate) return { password: generated(), isGenerated: true };
  const otherwise = "or let --generate make one";
  const password = await givenPassword(output, passwordFile, "New password:", { otherwise, signal: interruption.stop });
  if (passwordFile === undefined && (await ask("The same again:")) !== password)
    throw new InputError("the two passwords differ; nothing was changed");
  return { password, isGenerated: false };
}

/** A password that exists: read, or asked for, unseen. @param otherwise what else a script can do; `signal` ends the reading */
export async function givenPassword(
  output: Output,
  file: string | undefined,
  question: string,
  { otherwise = "", signal }: { readonly otherwise?: string; readonly signal?: AbortSignal } = {},
): Promise<string> {
  if (file === undefined && !output.interactive)
    throw new InputError(
      `there is no terminal to ask for the password: give --password-file FILE, or - for standard input${otherwise === "" ? "" : `, ${otherwise}`}`,
    );
  const password = file === undefined ? await ask(question) : await readPassword(file, signal);
  if (password === "") throw new InputError("the password is empty");
  conceal([password]);
  return password;
}

async function ask(message: string): Promise<string> {
  const { password } = await prompts();
  try {
    return await password({ message });
  } catch (error) {
    // Ctrl-C at the question.
    if (error instanceof Error && error.name === "ExitPromptError") throw new InputError("Cancelled.");
    throw error;
  }
}

/** Editors end a file with a line end. */
async function readPassword(file: string, signal: AbortSignal | undefined): Promise<string> {
  const { stdin } = process;
  try {
    // Reading the file 0 would fail as long as nobody has written into the pipe.
    const content =
      file === "-" ? text(signal === undefined ? stdin : addAbortSignal(signal, stdin)) : readFile(file, "utf8");
    return (await content).replace(/\r?\n$/, "");
  } catch (cause) {
    signal?.throwIfAborted();
    throw new InputError(`the password cannot be read from ${file}: ${reasonOf(cause)}`, { cause });
  }
}
