import { InputError } from "#errors.ts";

/** What a call of `user/sync` asks for, besides the list (B.3, B.4). */
export interface SyncParameters {
  readonly apply: boolean;
  readonly removeDeleted: boolean;
  readonly defaultPassword?: string;
}

/** The names of each parameter, in any case (0.3, B.3). */
const applyNames = ["applyChanges"];
const removeDeletedNames = ["remoteDeleted", "removeDeleted", "removeDelete"];
const defaultPasswordNames = ["defaultPassword", "password"];

/** The names of all parameters in lower case. */
export const syncParameterNames: ReadonlySet<string> = new Set(
  [...applyNames, ...removeDeletedNames, ...defaultPasswordNames].map((name) => name.toLowerCase()),
);

/** Whether the parameters, as far as they are known, leave it open that the list is applied. */
export function mayApply(given: ReadonlyMap<string, string>): boolean {
  return applyNames.every((name) => given.get(name.toLowerCase())?.toLowerCase() !== "false");
}

/**
 * Reads the parameters.
 * @param given what the form and the query give, by names in lower case
 * @throws {InputError} when a boolean is none, or two names of one parameter disagree
 */
export function readSyncParameters(given: ReadonlyMap<string, string>): SyncParameters {
  const problems: string[] = [];

  function read<Value>(names: readonly string[], parse: (name: string, text: string) => Value | undefined) {
    const found = names.flatMap((name) => {
      const text = given.get(name.toLowerCase());
      const value = text === undefined ? undefined : parse(name, text);
      return value === undefined ? [] : [{ name, value }];
    });
    const [first] = found;
    const other = found.find(({ value }) => value !== first?.value);
    if (other !== undefined) {
      problems.push(`${first?.name} and ${other.name} are the same parameter and disagree: give one of them`);
    }
    return first?.value;
  }

  function boolean(name: string, text: string): boolean | undefined {
    const lower = text.toLowerCase();
    if (lower === "true" || lower === "false") return lower === "true";
    problems.push(`${name}: must be true or false`);
    return undefined;
  }

  const apply = read(applyNames, boolean) ?? false;
  const removeDeleted = read(removeDeletedNames, boolean) ?? true;
  const defaultPassword = read(defaultPasswordNames, (_, text) => (text === "" ? undefined : text));
  if (problems.length > 0) throw new InputError("The parameters are not valid.", { problems });
  return { apply, removeDeleted, ...(defaultPassword === undefined ? {} : { defaultPassword }) };
}
