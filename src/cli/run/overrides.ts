import { InvalidArgumentError } from "commander";
import { overridable } from "#plan/limits.ts";
import type { Overridable } from "#plan/limits.ts";

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
