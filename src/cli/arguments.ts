import { InvalidArgumentError } from "commander";
import type { Format } from "#cli/look/formats.ts";
import type { Action } from "#plan/change.ts";
import { overridable } from "#plan/limits.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { aspects } from "#plan/stored.ts";
import type { Aspect } from "#plan/stored.ts";
import type { Head } from "#sync/audit/entry.ts";
import { runStates } from "#sync/record.ts";
import type { RunState } from "#sync/record.ts";
import type { RunsOptions } from "./runs.ts";
import type { ShowOptions } from "./show.ts";

const actions = { creates: "create", updates: "update", deletes: "delete" } as const;

/** `--only creates,updates` */
export function onlyList(value: string, before: NonNullable<Selection["only"]> = []): NonNullable<Selection["only"]> {
  const named = value.split(",").map((each) => {
    const action = Object.entries(actions).find(([name]) => name === each.trim().toLowerCase())?.[1];
    if (action === undefined) throw new InvalidArgumentError(`Expected some of ${Object.keys(actions).join(", ")}.`);
    return action;
  });
  return [...before, ...named];
}

/** `--except ada`, `--except user:ada`, `--except "group:Old team"`; a name may have commas. */
export function exceptList(
  value: string,
  before: NonNullable<Selection["except"]> = [],
): NonNullable<Selection["except"]> {
  const [, kind = "user", name = ""] = /^(?:(user|group):)?(.+)$/s.exec(value) ?? [];
  if (name === "") throw new InvalidArgumentError("Expected the name of a user, or group:NAME.");
  return [...before, { kind: kind === "group" ? "group" : "user", name }];
}

/** `deletes,updates`, also given several times. */
export function limitList(value: string, before: readonly Overridable[] = []): Overridable[] {
  const names = value.split(",").map((name) => name.trim());
  return [
    ...before,
    ...names.map((name) => {
      const known = overridable.find((each) => each.toLowerCase() === name.toLowerCase());
      if (known === undefined) throw new InvalidArgumentError(`Expected limits like ${overridable.join(", ")}.`);
      return known;
    }),
  ];
}

/** The digest of a plan. */
export function digestText(value: string): string {
  const digest = value.trim().toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(digest))
    throw new InvalidArgumentError("Expected the 64 hexadecimal digits that `rollcall plan --json` gives as `digest`.");
  return digest;
}

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

/** The value of `--head`: `12:9f86d0…`, as `rollcall audit verify` shows it. */
export function headText(text: string): Head {
  const { sequence, hash } = /^(?<sequence>\d{1,15}):(?<hash>[0-9a-f]{64})$/.exec(text)?.groups ?? {};
  if (sequence === undefined || hash === undefined)
    throw new InvalidArgumentError("expected NUMBER:HASH, as `rollcall audit verify` shows the last entry.");
  return { sequence: Number(sequence), hash };
}
