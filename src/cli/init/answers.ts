import { InputError, messageOf, RefusedError, UnavailableError } from "#errors.ts";
import { printable } from "#text.ts";

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
 * The answers to questions that depend on each other. When the work that needs them fails, the person says which of them
 * was wrong, and the work begins again: only that one is asked for once more.
 */
export class Answers {
  readonly #given = new Map<string, Given>();
  readonly #wrong = new Map<string, unknown>();

  /**
   * Does the work with answers, until it succeeds.
   * @param refuse prints what is wrong; rethrows errors that no other answer would mend
   */
  static async until<Result>(
    refuse: (error: unknown) => void,
    work: (answers: Answers) => Promise<Result>,
  ): Promise<Result> {
    const answers = new Answers();
    for (;;) {
      try {
        return await work(answers);
      } catch (error) {
        refuse(error);
        await answers.#forgetWrong(error);
      }
    }
  }

  /**
   * Asks unless there is an answer.
   * @param label what the answer is, for a list of all answers: `password`
   * @param ask receives the answer that was wrong, as the default of the question
   * @param show the answer in that list; absent: it is not shown
   */
  async once<Value>(
    key: string,
    label: string,
    ask: (before: Value | undefined) => Promise<Value>,
    show?: (value: Value) => string,
  ): Promise<Value> {
    const found = this.#given.get(key);
    if (found !== undefined) return found.value as Value;
    const value = await ask(this.#wrong.get(key) as Value | undefined);
    this.#given.set(key, { label, value, shown: show?.(value) });
    return value;
  }

  text(key: string, label: string, { message, check = required, fallback = "" }: TextQuestion): Promise<string> {
    return this.once<string>(
      key,
      label,
      async (before) => {
        const { input } = await prompts();
        return (await input({ message, default: before ?? fallback, validate: check })).trim();
      },
      (value) => (value === "" ? "(none)" : value),
    );
  }

  /** Asks again when the answer is not among the choices any more. */
  choice(key: string, label: string, { message, choices, fallback }: ChoiceQuestion): Promise<string> {
    const isOffered = (value: unknown): boolean => choices.some((choice) => choice.value === value);
    if (!isOffered(this.#given.get(key)?.value)) this.#given.delete(key);
    return this.once<string>(
      key,
      label,
      async (before) => {
        const { select } = await prompts();
        return select({ message, choices, default: [before, fallback].find(isOffered), pageSize, loop: false });
      },
      (value) => value,
    );
  }

  async #forgetWrong(error: unknown): Promise<void> {
    const key = await askWhich(this.#given, error);
    if (key === undefined) return;
    this.#wrong.set(key, this.#given.get(key)?.value);
    this.#given.delete(key);
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
  const among = (...wanted: readonly RegExp[]): string | undefined =>
    wanted.map((each) => keys.find((key) => each.test(key))).find((key) => key !== undefined);
  const message = messageOf(error);
  if (/certificate|authority/i.test(message)) return among(/^ca$/, /^url$/);
  if (error instanceof RefusedError) return among(/(?:password|token|bearer|secret|key)$/i, /^url$/);
  if (error instanceof UnavailableError) return among(/^url$/);
  // What is wrong is named: `url: expected …`, `SQLite at hr.db, users: no such table`.
  const named = error instanceof InputError ? /(?:^|, )([\w.]+): /.exec(message)?.[1] : undefined;
  const nearest =
    keys.findLast((key) => key === named || named?.startsWith(`${key}.`)) ??
    keys.find((key) => key.startsWith(`${named}.`));
  return nearest ?? keys.at(-1);
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
