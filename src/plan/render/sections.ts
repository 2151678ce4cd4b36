import { setImmediate } from "node:timers/promises";
import type { Action, Change, Counts, Part, Plan } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";

/** How much of a plan is shown, and what is said beside it. */
export interface RenderOptions {
  /** What is planned: the sync and its target. */
  readonly title: string;
  /** How many changes of each section are shown; 20 when absent, `Infinity` for all. */
  readonly limit?: number;
  /** What the limits say of it. */
  readonly limits?: readonly LimitCheck[];
  /** What a person should know beside the changes, a line each. */
  readonly notes?: readonly string[];
  /** What is said of principals; that they are created, updated and deleted when absent. */
  readonly words?: Words;
}

/** What an action does, as it is said of principals: `created`. */
export type Words = Readonly<Record<Action, string>>;

export const usualWords: Words = { delete: "deleted", create: "created", update: "updated" };

/** The changes of one action on one kind, as they are shown: deletions first, since they are what is feared. */
export interface Section extends Part {
  /** `Deleted users`. */
  readonly heading: string;
  readonly count: number;
}

/** The sections of a plan that are not empty. */
export function sectionsOf({ users, groups }: Counts, words = usualWords): Section[] {
  const heading = (action: Action): string => words[action].charAt(0).toUpperCase() + words[action].slice(1);
  return (["delete", "create", "update"] as const).flatMap((action) =>
    [
      { action, kind: "user" as const, heading: `${heading(action)} users`, count: users[action] },
      { action, kind: "group" as const, heading: `${heading(action)} groups`, count: groups[action] },
    ].filter(({ count }) => count > 0),
  );
}

/** Up to `limit` changes of a section. Reads no more than that. */
export async function* changesOf(plan: Plan, section: Section, limit = 20): AsyncIterable<Change> {
  let shown = 0;
  if (limit <= 0) return;
  for await (const change of plan.changes(section)) {
    yield change;
    if (++shown >= limit) return;
  }
}

/** The pieces of a long text, put together to pieces worth a write. Between two of them others have their turn. */
export async function* inChunks(pieces: AsyncIterable<string>): AsyncIterable<string> {
  let chunk = "";
  for await (const piece of pieces) {
    chunk += piece;
    if (chunk.length < 32_768) continue;
    yield chunk;
    chunk = "";
    await setImmediate();
  }
  if (chunk !== "") yield chunk;
}
