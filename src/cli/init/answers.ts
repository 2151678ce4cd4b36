import { InputError, messageOf, RefusedError, UnavailableError } from "#errors.ts";
import { printable } from "#text.ts";

/**
 * The answers to questions that depend on each other. When the work that needs them fails, the person says which of them
 * was wrong, and the work begins again: only that one is asked for once more.
 */
export interface Answers {
  /**
   * Asks unless there is an answer.
   * @param label what the answer is, for a list of all answers: `password`
   * @param ask receives the answer that was wrong, as the default of the question
   * @param show the answer in that list; absent: it is not shown
   */
  once<Value>(
    key: string,
    label: string,
    ask: (before: Value | undefined) => Promise<Value>,
    show?: (value: Value) => string,
  ): Promise<Value>;
  text(key: string, label: string, question: TextQuestion): Promise<string>;
  /** Asks again when the answer is not among the choices any more. */
  choice(key: string, label: string, question: ChoiceQuestion): Promise<string>;
}

export interface TextQuestion {
  readonly message: string;
  /** By default an answer is required. */
  readonly check?: Check | undefined;
  readonly fallback?: string | undefined;
}

export interface ChoiceQuestion {
  readonly message: string;
  readonly choices: readonly { readonly name: string; readonly value: string }[];
  readonly fallback?: string | undefined;
}

/** True for a usable answer, or what is wrong with it. */
export type Check = (value: string) => Promise<string | true>;

/** Loaded late: only `init` at a terminal needs them. */
export const prompts = () => import("@inquirer/prompts");

/** How many lines a list shows at a time. */
const pageSize = 15;

interface Given {
  readonly label: string;
  readonly value: unknown;
  readonly shown: string | undefined;
}

/**
 * Does the work with answers, until it succeeds.
 * @param refuse prints what is wrong; rethrows errors that no other answer would mend
 */
export async function untilAnswered<Result>(
  refuse: (error: unknown) => void,
  work: (answers: Answers) => Promise<Result>,
): Promise<Result> {
  const given = new Map<string, Given>();
  const wrong = new Map<string, unknown>();
  const once: Answers["once"] = async (key, label, ask, show) => {
    const found = given.get(key);
    if (found !== undefined) return found.value as Awaited<ReturnType<typeof ask>>;
    const value = await ask(wrong.get(key) as Awaited<ReturnType<typeof ask>> | undefined);
    given.set(key, { label, value, shown: show?.(value) });
    return value;
  };
  const answers: Answers = {
    once,
    text: (key, label, { message, check = required, fallback = "" }) =>
      once<string>(
        key,
        label,
        async (before) => {
          const { input } = await prompts();
          return (await input({ message, default: before ?? fallback, validate: check })).trim();
        },
        (value) => (value === "" ? "(none)" : value),
      ),
    choice: (key, label, { message, choices, fallback }) => {
      if (!choices.some(({ value }) => value === given.get(key)?.value)) given.delete(key);
      return once<string>(
        key,
        label,
        async (before) => {
          const { select } = await prompts();
          const offered = [before, fallback].find((value) => choices.some((choice) => choice.value === value));
          return select({ message, choices, default: offered, pageSize, loop: false });
        },
        (value) => value,
      );
    },
  };
  for (;;) {
    try {
      return await work(answers);
    } catch (error) {
      refuse(error);
      const key = await askWhich(given, error);
      if (key === undefined) continue;
      wrong.set(key, given.get(key)?.value);
      given.delete(key);
    }
  }
}

/** The key of the answer that was wrong; undefined: none, try again. */
async function askWhich(given: ReadonlyMap<string, Given>, error: unknown): Promise<string | undefined> {
  const { select } = await prompts();
  const keys = [...given.keys()];
  const likely = likeliest(keys, error);
  const key = await select({
    message: "Which answer should be changed?",
    choices: [
      ...keys.map((value) => {
        const { label = "", shown } = given.get(value) ?? {};
        return { name: printable(shown === undefined ? label : `${label}: ${shown}`), value };
      }),
      { name: "none: try again", value: "" },
    ],
    default: likely ?? "",
    pageSize,
    loop: false,
  });
  return key === "" ? undefined : key;
}

/** The answer that an error is probably about. */
function likeliest(keys: readonly string[], error: unknown): string | undefined {
  const among = (...wanted: readonly string[]): string | undefined => wanted.find((key) => keys.includes(key));
  const message = messageOf(error);
  if (/certificate|authority/i.test(message)) return among("ca", "url");
  if (error instanceof RefusedError) return among("password", "url");
  if (error instanceof UnavailableError) return among("url");
  // An option that is not valid is named: `url: expected …`.
  const named = error instanceof InputError ? /^(\w+)(?:\.\w+)*: /.exec(message)?.[1] : undefined;
  return among(named ?? "") ?? keys.at(-1);
}

/** Returns true for a usable answer, and what is wrong with any other. */
export function must(check: (value: string) => unknown): Check {
  return async (value) => {
    try {
      await check(value.trim());
      return true;
    } catch (error) {
      return printable(messageOf(error));
    }
  };
}

export const required = must((value) => {
  if (value === "") throw new Error("an answer is required");
});

export const optional = must(() => undefined);
