/**
 * The parameters of a request by their names in lower case: case does not matter, the last of several wins over the
 * earlier, the form over the query (0.3).
 */
export function parametersOf(query: URLSearchParams, form: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries([...query, ...form].map(([name, value]) => [name.toLowerCase(), value]));
}

/** Every value of one parameter, for those that may be given several times: the form's, else the query's (0.3). */
export function valuesOf(name: string, query: URLSearchParams, form: URLSearchParams): string[] {
  const values = (parameters: URLSearchParams): string[] =>
    [...parameters].flatMap(([given, value]) => (given.toLowerCase() === name ? [value] : []));
  const own = values(form);
  return own.length > 0 ? own : values(query);
}
