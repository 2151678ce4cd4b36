import type { z } from "zod";
import type { ConfigurationDocument } from "./document.ts";
import { alternatives } from "./expectations.ts";
import type { Path, Problem } from "./problem.ts";
import { nearest, suggestion } from "#text.ts";

type Issue = z.core.$ZodIssue;

/** What a validation found, as problems at their places. Messages are those of `expectation` or the schema's own. */
export function explain(issues: readonly Issue[], document: ConfigurationDocument, base: Path): Problem[] {
  return issues.flatMap((issue) => plainIssues(issue, base)).flatMap((issue) => problemsOf(issue, document));
}

/** An issue without unions: of the forms a value may have, the one it comes nearest to. `path` is from the top. */
function plainIssues(issue: Issue, base: Path): Issue[] {
  const path = [...base, ...issue.path] as (string | number)[];
  if (issue.code === "invalid_key") {
    return [{ code: "custom", path, message: issue.issues[0]?.message ?? issue.message, params: { key: true } }];
  }
  if (issue.code !== "invalid_union") return [{ ...issue, path }];
  if (issue.errors.length === 0) {
    const options = "options" in issue ? (issue.options ?? []) : [];
    return [{ code: "invalid_value", path, values: options, message: `expected ${alternatives(options.map(String))}` }];
  }
  const forms = issue.errors.map((errors) => errors.flatMap((error) => plainIssues(error, path)));
  const meant = forms.filter((found) => !found.some((one) => one.path.length === path.length && isOfAnotherForm(one)));
  if (meant.length > 0) return meant.reduce((best, form) => (form.length < best.length ? form : best));
  const values = forms.flatMap((found) => found.flatMap((one) => (one.code === "invalid_value" ? one.values : [])));
  const expected = forms.flatMap((found) => found.slice(0, 1).map(({ message }) => message.replace(/^expected /, "")));
  const message = issue.message === "" ? `expected ${alternatives([...new Set(expected)])}` : issue.message;
  return [{ code: "invalid_value", path, values, message }];
}

function isOfAnotherForm(issue: Issue): boolean {
  return issue.code === "invalid_type" || issue.code === "invalid_value" || issue.code === "custom";
}

function problemsOf(issue: Issue, document: ConfigurationDocument): Problem[] {
  const path = issue.path as (string | number)[];
  if (issue.code === "unrecognized_keys") {
    const known = issue.message.split("\n").filter((key) => key !== "");
    return issue.keys.map((key) => document.problem([...path, key], "key", `unknown key; ${suggestion(key, known)}`));
  }
  if (issue.code === "custom" && issue.params?.["key"] === true) return [document.problem(path, "key", issue.message)];
  if (document.broken(path)) return [];
  const value = document.at(path);
  if (value === undefined) {
    const missing = issue.message.startsWith("expected ") ? "missing; " : "";
    return [document.problem(path, "parent", `${missing}${issue.message}`)];
  }
  return [document.problem(path, "value", `${issue.message}${found(issue, value, path, document)}`)];
}

/** `, not …`, with what was probably meant: unless the value may not be shown. */
function found(issue: Issue, value: unknown, path: Path, document: ConfigurationDocument): string {
  if (!issue.message.startsWith("expected ")) return "";
  const origins = document.origins(path);
  if (origins.length > 0)
    return ` (the value comes from ${alternatives(origins)}${value === "" ? ", and is empty" : ""})`;
  if (value === null) return "; the key has no value";
  if (typeof value === "object") {
    if (issue.code === "too_small" || issue.code === "too_big") return "";
    return Array.isArray(value) ? ", not a list" : ", not keys with values";
  }
  const shown = JSON.stringify(value);
  const isTextWanted = issue.code === "invalid_type" && issue.expected === "string";
  if (document.secret(path)) return isTextWanted ? "; put it in quotes" : "";
  if (isTextWanted) return `, not ${shown}; put it in quotes: "${shown}"`;
  const word = typeof value === "string" ? value : shown;
  const meant = issue.code === "invalid_value" ? nearest(word, issue.values.map(String)) : undefined;
  return `${shown.length > 60 ? "" : `, not ${shown}`}${meant === undefined ? "" : `; did you mean ${JSON.stringify(meant)}?`}`;
}
