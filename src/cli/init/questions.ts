import { messageOf } from "#errors.ts";
import type { Secret } from "./draft.ts";

/** Only `init` at a terminal has a use for them. */
export const prompts = () => import("@inquirer/prompts");

/** Says why an answer cannot be used; true when it can. */
export function must(check: (value: string) => unknown): (value: string) => Promise<string | true> {
  return async (value) => {
    try {
      await check(value.trim());
      return true;
    } catch (error) {
      return messageOf(error);
    }
  };
}

export const required = must((value) => {
  if (value === "") throw new Error("an answer is needed");
});

/** What was answered before, by key: proposed when it is asked for again. */
export type Before = Map<string, string>;

export async function ask(
  before: Before,
  key: string,
  message: string,
  check = required,
  fallback = "",
): Promise<string> {
  const { input } = await prompts();
  const answer = (await input({ message, default: before.get(key) ?? fallback, validate: check })).trim();
  before.set(key, answer);
  return answer;
}

export const optional = must(() => undefined);

/** Whom to trust, as the key `ca`. */
export async function askAuthority(before: Before): Promise<{ readonly ca?: string }> {
  const message = "A file with the authority's certificate (PEM; empty: those known already):";
  const ca = await ask(before, "ca", message, optional);
  return ca === "" ? {} : { ca };
}

/** A secret is never written into the configuration itself. */
export async function askSecret(what: string, file: string): Promise<Secret> {
  const { select, password, input } = await prompts();
  const place = await select({
    message: `${what}: where is it to be?`,
    choices: [
      { name: `in a file beside the configuration, ${file}, which only you can read`, value: "file" },
      { name: "in an environment variable that is set already", value: "env" },
    ],
  });
  if (place === "env") {
    const isSet = must((name) => {
      if (!/^[A-Za-z_]\w*$/.test(name)) throw new Error("expected the name of a variable, like LDAP_PASSWORD");
      if ((process.env[name] ?? "") === "") throw new Error(`the variable ${name} is not set here`);
    });
    const name = (await input({ message: "Its name:", validate: isSet })).trim();
    return { reference: `\${env:${name}}`, value: process.env[name] ?? "" };
  }
  const value = await password({ message: `${what}:`, mask: "*", validate: required });
  return { reference: `\${file:${file}}`, value, file };
}
