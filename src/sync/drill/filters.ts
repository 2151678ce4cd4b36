import { literal } from "#duckdb/database.ts";
import type { Rules } from "#principals/rules.ts";
import { pluralize, quote } from "#text.ts";
import { count, only } from "./world.ts";
import type { Injection, World } from "./world.ts";

/** Filters with one wrong letter: in the rules, in the names of groups that say who is in scope, in the sources. */
export async function wrongFilter({ connection, sync, rules, compile }: World): Promise<readonly Injection[] | string> {
  const found: Injection[] = [];
  for (const [kind, rule] of [
    ["users", "include"],
    ["users", "exclude"],
    ["groups", "include"],
    ["groups", "exclude"],
  ] as const) {
    for (const { expression, from, to } of mistyped(rules[kind]?.[rule])) {
      try {
        const changed = { ...rules, [kind]: { ...rules[kind], [rule]: expression } } as Rules;
        found.push({
          injected: `${kind}.${rule} says ${quote(to)} instead of ${quote(from)}`,
          rules: compile(changed),
        });
        break;
      } catch {
        // The name of a table, or of a function: then nothing runs at all.
      }
    }
  }
  const lists = {
    users: { onlyMembersOf: rules.users.onlyMembersOf, notMembersOf: rules.users.notMembersOf },
    groups: { onlyBelow: rules.groups?.onlyBelow, notBelow: rules.groups?.notBelow },
  };
  for (const [kind, keys] of Object.entries(lists)) {
    for (const [key, names] of Object.entries(keys)) {
      const from = names?.at(-1);
      const to = from?.replace(/[a-z](?=[^a-z]*$)/i, (letter) => (letter === "x" ? "y" : "x"));
      if (from === undefined || to === undefined || from === to) continue;
      const changed = structuredClone(rules);
      Object.assign(changed[kind as keyof typeof lists] ?? {}, { [key]: [...(names ?? []).slice(0, -1), to] });
      found.push({
        injected: `${kind}.${key} says ${quote(to)} instead of ${quote(from)}`,
        rules: compile(changed),
      });
    }
  }
  for (const { name } of sync.sources) {
    const options = (sync.settings["sources"] as Record<string, Filtered | undefined> | undefined)?.[name];
    if (typeof options?.users?.filter !== "string") continue;
    const users = await count(connection, `kind = 'user' AND source = ${literal(name)}`);
    found.push({
      injected: `users.filter of ${name} matches nobody, instead of ${pluralize(users, "user")}`,
      records: only(name, () => (record) => (record.kind === "user" ? undefined : record)),
    });
  }
  return found.length === 0 ? "neither the rules nor the sources have a filter with a text" : found;
}

interface Filtered {
  readonly users?: { readonly filter?: unknown };
}

/** The expression with another last letter in one of its texts that is no key of `entry`: the last text first. */
export function* mistyped(
  expression = "",
): Generator<{ readonly expression: string; readonly from: string; readonly to: string }> {
  const texts = Array.from(expression.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g));
  for (const { 0: whole, index } of texts.reverse()) {
    const from = whole.slice(1, -1);
    const place = from.search(/(?<!\\)[a-z](?=[^a-z]*$)/i);
    if (place === -1 || /[\w)\]]\[\s*$/.test(expression.slice(0, index))) continue;
    const to = `${from.slice(0, place)}${from[place] === "x" ? "y" : "x"}${from.slice(place + 1)}`;
    const [before, after] = [expression.slice(0, index), expression.slice(index + whole.length)];
    yield { expression: before + whole.charAt(0) + to + whole.charAt(0) + after, from, to };
  }
}
