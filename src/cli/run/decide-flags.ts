import { InvalidArgumentError } from "commander";
import type { Selection } from "#plan/selection.ts";

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
