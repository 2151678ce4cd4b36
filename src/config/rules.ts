import { checkRules } from "#principals/compile.ts";
import type { KindRules } from "#principals/rules.ts";
import type { ConfigurationDocument } from "./document.ts";
import { alternatives } from "./expectations.ts";
import { groupRules, userRules } from "./mapping.ts";
import type { Path, Problem } from "./problem.ts";
import { keysOf } from "./references.ts";

/** What is wrong with the expressions of every sync, at the place in the expression where it can be told. */
export function checkSyncRules(document: ConfigurationDocument): Problem[] {
  return keysOf(document, ["syncs"]).flatMap((sync) => {
    const base = ["syncs", sync];
    const problems = checkRules({
      join: texts(document, [...base, "join"], ["users", "groups"]),
      users: expressions(document, [...base, "users"], Object.keys(userRules.shape)),
      groups: expressions(
        document,
        [...base, "groups"],
        Object.keys(groupRules.shape).filter((rule) => rule !== "rename"),
      ),
    });
    return problems.map(({ path, message, offset }) => {
      const place = [...base, ...path];
      const origins = document.origins(place);
      // The message may quote the expression.
      if (origins.length > 0)
        return document.problem(place, "value", `the expression that comes from ${alternatives(origins)} is not valid`);
      return document.problemWithin(place, offset, message);
    });
  });
}

/** The rules of one kind of which the expression is a text. The others, and missing ones, are the schema's to refuse. */
function expressions(document: ConfigurationDocument, base: Path, known: readonly string[]): KindRules {
  const values = known.flatMap((rule) => {
    const { value } = texts(document, [...base, rule], ["value"]);
    return value === undefined ? [] : [[rule, { value, absent: "keep" }]];
  });
  return { name: '"-"', displayName: '"-"', ...Object.fromEntries(values), ...texts(document, base, known) };
}

/** Those of the keys of a mapping that hold a text. */
function texts(document: ConfigurationDocument, base: Path, keys: readonly string[]): Record<string, string> {
  const found = keys.flatMap((key) => {
    const path = [...base, key];
    const value = document.at(path);
    return typeof value === "string" && value !== "" && !document.broken(path) ? [[key, value]] : [];
  });
  return Object.fromEntries(found);
}
