import { InvalidArgumentError } from "commander";
import type { Action } from "#plan/change.ts";
import { aspects } from "#plan/stored.ts";
import type { Aspect } from "#plan/stored.ts";
import { runStates } from "#sync/record.ts";
import type { RunState } from "#sync/record.ts";
import type { RunsOptions } from "./runs.ts";
import type { ShowOptions } from "./show.ts";
import type { Format } from "./formats.ts";

/** The flags of `rollcall runs`, as they come from the command line. */
export interface RunsFlags extends Omit<RunsOptions, "states"> {
  readonly state?: readonly RunState[];
}

/** The flags of `rollcall show`. */
export interface ShowFlags {
  readonly kind?: "user" | "group";
  readonly action?: readonly Action[];
  readonly name?: readonly string[];
  readonly attribute?: readonly Aspect[];
  readonly format?: Format;
  readonly output?: string;
  readonly all?: boolean;
  readonly limit?: number;
}

export function runsOptionsOf({ state: states, since, limit, all }: RunsFlags): RunsOptions {
  return {
    ...(states === undefined ? {} : { states }),
    ...(since === undefined ? {} : { since }),
    ...(limit === undefined ? {} : { limit }),
    ...(all === undefined ? {} : { all }),
  };
}

export function showOptionsOf(flags: ShowFlags): ShowOptions {
  const { kind, action: actions, name: names, attribute: aspects, format, output } = flags;
  const limit = flags.all === true ? Number.POSITIVE_INFINITY : flags.limit;
  return {
    filter: {
      ...(kind === undefined ? {} : { kind }),
      ...(actions === undefined ? {} : { actions }),
      ...(names === undefined ? {} : { names }),
      ...(aspects === undefined ? {} : { aspects }),
    },
    ...(format === undefined ? {} : { format }),
    ...(output === undefined ? {} : { output }),
    ...(limit === undefined ? {} : { limit }),
  };
}

/** `pending,held`, also given several times; `no-change` needs no quotes. */
export const stateList = wordsOf(runStates);

/** `create,delete`, also given several times; `creates,deletes` as well. */
export function actionList(value: string, before: readonly Action[] = []): Action[] {
  return wordsOf(["create", "update", "delete"] as const)(value.replaceAll(/s(?=\s*(?:,|$))/g, ""), before);
}

/** `mail,groups`, also given several times. */
export const aspectList = wordsOf(aspects);

function wordsOf<Word extends string>(words: readonly Word[]): (value: string, before?: readonly Word[]) => Word[] {
  return (value, before = []) => [
    ...before,
    ...value.split(",").map((each) => {
      const text = each.trim().toLowerCase().replace("-", " ");
      const word = words.find((known) => known.toLowerCase() === text);
      if (word === undefined) throw new InvalidArgumentError(`Expected some of ${words.join(", ")}.`);
      return word;
    }),
  ];
}

/** Names are taken as they are: a comma may be in one. */
export function patternList(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}
