type Condition = (item: object) => boolean;

/** What a search of Okta says is not understood. */
export class SearchError extends Error {}

/**
 * The part of Okta's search language that says `eq`, `sw`, `co`, `gt`, `lt`, `pr`, `and`, `or` and brackets. Values have no
 * case.
 * @throws {SearchError} it says anything else
 */
export function conditionOf(search: string): Condition {
  const tokens = search.match(/"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+/g) ?? [];
  const condition = either(tokens);
  if (tokens.length > 0) throw new SearchError();
  return condition;
}

function either(tokens: string[]): Condition {
  const parts = listOf(tokens, "or", both);
  return (item) => parts.some((part) => part(item));
}

function both(tokens: string[]): Condition {
  const parts = listOf(tokens, "and", term);
  return (item) => parts.every((part) => part(item));
}

function listOf(tokens: string[], word: string, part: (tokens: string[]) => Condition): readonly Condition[] {
  const parts = [part(tokens)];
  while (tokens[0]?.toLowerCase() === word) {
    tokens.shift();
    parts.push(part(tokens));
  }
  return parts;
}

function term(tokens: string[]): Condition {
  const name = tokens.shift();
  if (name === undefined) throw new SearchError();
  if (name === "(") {
    const inner = either(tokens);
    if (tokens.shift() !== ")") throw new SearchError();
    return inner;
  }
  const operator = tokens.shift()?.toLowerCase() ?? "";
  if (operator === "pr") return (item) => valueIn(item, name) !== "";
  const compare = comparisons[operator];
  const literal = tokens.shift();
  if (compare === undefined || literal?.startsWith('"') !== true) throw new SearchError();
  const expected = (JSON.parse(literal) as string).toLowerCase();
  return (item) => compare(valueIn(item, name), expected);
}

const comparisons: Readonly<Record<string, (value: string, expected: string) => boolean>> = {
  eq: (value, expected) => value === expected,
  sw: (value, expected) => value.startsWith(expected),
  co: (value, expected) => value.includes(expected),
  gt: (value, expected) => value > expected,
  lt: (value, expected) => value < expected,
};

function valueIn(item: object, name: string): string {
  let value: unknown = item;
  for (const part of name.split(".")) value = (value as Readonly<Record<string, unknown>> | undefined)?.[part];
  return typeof value === "string" ? value.toLowerCase() : "";
}
