import { readFileSync } from "node:fs";
import { InputError, reasonOf } from "#errors.ts";
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
  output: Output,
  { passwordFile, generate = false }: PasswordOptions,
  generated: () => string,
): Promise<{ readonly password: string; readonly isGenerated: boolean }> {
  if (generate && passwordFile !== undefined) throw new InputError("use either --generate or --password-file");
  // It is the result: it is not concealed.
  if (generate) return { password: generated(), isGenerated: true };
  const password = await givenPassword(output, passwordFile, "New password:", "or let --generate make one");
  if (passwordFile === undefined && (await ask("The same again:")) !== password)
    throw new InputError("the two passwords differ; nothing was changed");
  return { password, isGenerated: false };
}

/** A password that exists: read, or asked for, unseen. @param otherwise what else a script can do */
export async function givenPassword(
  output: Output,
  file: string | undefined,
  question: string,
  otherwise = "",
): Promise<string> {
  if (file === undefined && !output.interactive)
    throw new InputError(
      `there is no terminal to ask for the password: give --password-file FILE, or - for standard input${otherwise === "" ? "" : `, ${otherwise}`}`,
    );
  const password = file === undefined ? await ask(question) : readPassword(file);
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
function readPassword(file: string): string {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8").replace(/\r?\n$/, "");
  } catch (cause) {
    throw new InputError(`the password cannot be read from ${file}: ${reasonOf(cause)}`, { cause });
  }
}
