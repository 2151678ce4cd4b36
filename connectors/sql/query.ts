/**
 * What can be said of a query before a database sees it; undefined: nothing against it. The database has the last word: it
 * gets the query as a subquery of a transaction that only reads.
 */
export function queryProblem(text: string): string | undefined {
  const plain = withoutTexts(plainQuery(text));
  if (plain.includes(";")) return "expected one statement; write each query under a key of its own";
  if (!/^[\s(]*(?:select|with|values|table)\b/i.test(plain)) return "expected a query that begins with SELECT or WITH";
  if (limiting.test(outermost(plain)))
    return "LIMIT, OFFSET and FETCH leave records out, which then count as deleted; remove it, or write SELECT * FROM (…) AS chosen around the query if this is meant";
  return undefined;
}

/** `a.limit` and `AS limit` are columns. */
const limiting = /\b(?:(?<!\.|\bas\s+)limit\s+(?!(?:all|null)\b)\S|offset\s+\d+\b|fetch\s+(?:first|next)\b)/i;

/** The query without the semicolon that may end it. */
function plainQuery(text: string): string {
  return text.trim().replace(/;\s*$/, "");
}

/** As a subquery it can do no more than read, and its rows can be counted. A comment may end it. */
export function wrapped(select: string, query: string): string {
  return `SELECT ${select} FROM (\n${plainQuery(query)}\n) AS rollcall_query`;
}

const quoted = /'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$.*?\$\1\$|--[^\n]*|\/\*.*?\*\//gs;

/** With a word in the place of what is quoted, and without comments. */
function withoutTexts(sql: string): string {
  return sql.replaceAll(quoted, (found) => (/^(?:--|\/)/.test(found) ? " " : " x "));
}

/** Without what is in parentheses. */
function outermost(sql: string): string {
  for (let text = sql; ;) {
    const next = text.replaceAll(/\([^()]*\)/g, " x ");
    if (next === text) return text;
    text = next;
  }
}
