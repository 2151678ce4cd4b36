/* As much of OData's filters as tests need: clauses joined by `and`, brackets around them, `not`. */

type Values = Readonly<Record<string, unknown>>;

/** Whether Graph takes the filter only with `ConsistencyLevel: eventual` and `$count`. */
export function isAdvanced(filter: string): boolean {
  return /\bne\b|\bnot\b|endswith\(/i.test(filter.replaceAll(/'(?:[^']|'')*'/g, "''"));
}

/** Whether an object matches. @throws {Error} the filter is beyond this */
export function evaluate(filter: string, object: Values): boolean {
  const text = filter.trim();
  const parts = splitTop(text);
  if (parts.length > 1) return parts.every((part) => evaluate(part, object));
  const inner = /^(?<not>not\s*)?\((?<inner>.*)\)$/is.exec(text)?.groups;
  if (inner?.["inner"] !== undefined && splitTop(inner["inner"], ")").length > 0)
    return evaluate(inner["inner"], object) !== (inner["not"] !== undefined);
  const call = /^(?<name>startswith|endswith)\((?<property>[\w/]+),\s*(?<value>'.*')\)$/is.exec(text)?.groups;
  if (call !== undefined) {
    const found = valueAt(object, call["property"] ?? "");
    const value = typeof found === "string" ? found.toLowerCase() : "";
    const wanted = String(literal(call["value"] ?? "")).toLowerCase();
    return call["name"]?.toLowerCase() === "startswith" ? value.startsWith(wanted) : value.endsWith(wanted);
  }
  const any = /^(?<property>[\w/]+)\/any\(\w+:\w+ eq (?<value>'.*')\)$/is.exec(text)?.groups;
  if (any !== undefined) return [valueAt(object, any["property"] ?? "")].flat().includes(literal(any["value"] ?? ""));
  const list = /^(?<property>[\w/]+) in \((?<values>.*)\)$/is.exec(text)?.groups;
  if (list !== undefined)
    return (list["values"] ?? "")
      .split(",")
      .some((each) => literal(each.trim()) === valueAt(object, list["property"] ?? ""));
  const clause = /^(?<property>[\w/]+) (?<operator>eq|ne) (?<value>'.*'|true|false|null)$/is.exec(text)?.groups;
  if (clause === undefined) throw new Error(`${text}: no such filter here`);
  const found = valueAt(object, clause["property"] ?? "") ?? null;
  const wanted = literal(clause["value"] ?? "");
  const fold = (value: unknown): unknown => (typeof value === "string" ? value.toLowerCase() : value);
  return (fold(found) === fold(wanted)) === (clause["operator"]?.toLowerCase() === "eq");
}

function valueAt(object: Values, path: string): unknown {
  return path.split("/").reduce<unknown>((value, name) => (value as Values | undefined)?.[name], object);
}

function literal(text: string): unknown {
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  return text === "null" ? null : text === "true";
}

/**
 * The clauses that `and` joins outside of brackets and texts.
 * @param close with `)`: none if the brackets do not belong together, as in `a) and (b`
 */
function splitTop(text: string, close?: ")"): readonly string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  let isText = false;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "'") isText = !isText;
    else if (isText) continue;
    else if (text[at] === "(") depth++;
    else if (text[at] === ")" && --depth < 0 && close === ")") return [];
    else if (depth === 0 && /^ and /i.test(text.slice(at, at + 5))) {
      parts.push(text.slice(start, at));
      start = at + 5;
    }
  }
  return [...parts, text.slice(start)];
}
