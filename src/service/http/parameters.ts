/**
 * The parameters of a request by their names in lower case: case does not matter, the last of several wins over the
 * earlier, the form over the query (0.3).
 */
export function parametersOf(query: URLSearchParams, form: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries([...query, ...form].map(([name, value]) => [name.toLowerCase(), value]));
}
