/**
 * What can be said of a query before a database sees it; undefined: nothing against it. The database has the last word: it
 * gets the query as a subquery of a transaction that only reads.
 */
export function queryProblem(text: string): string | undefined {
  // Which language the server speaks is in another option: what only one of them finds is left to the server.
  const problems = languages.map((language) => problemIn(withoutTexts(plainQuery(text, language), language)));
  return problems.includes(undefined) ? undefined : problems[0];
}

function problemIn(plain: string): string | undefined {
  if (plain.includes(";")) return "expected one statement; write each query under a key of its own";
  if (!/^[\s(]*(?:select|with|values|table)\b/i.test(plain)) return "expected a query that begins with SELECT or WITH";
  if (limiting.test(outermost(plain)))
    return "LIMIT, OFFSET and FETCH leave records out, which then count as deleted; remove it, or write SELECT * FROM (…) AS chosen around the query if this is meant";
  return undefined;
}

/** `a.limit` and `AS limit` are columns. */
const limiting = /\b(?:(?<!\.|\bas\s+)limit\s+(?!(?:all|null)\b)\S|offset\s+\d+\b|fetch\s+(?:first|next)\b)/i;

/** As a subquery it can do no more than read, and its rows can be counted. A comment may end it. */
export function wrapped(select: string, query: string, language: Language): string {
  return `SELECT ${select} FROM (\n${plainQuery(query, language)}\n) AS rollcall_query`;
}

/** Without the semicolons that may end it, and what follows them. */
function plainQuery(text: string, language: Language): string {
  const [end = ""] = /\s*;[\s;]*$/.exec(withoutTexts(text, language)) ?? [];
  return text.slice(0, text.length - end.length).trim();
}

/** What a language has as texts, quoted names and comments. */
const quoted = {
  standard: /\be'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$.*?\$\1\$|--[^\n]*|\/\*.*?\*\//gis,
  mysql: /'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|`[^`]*`|(?:--(?!\S)|#)[^\n]*|\/\*.*?\*\//gs,
};
export type Language = keyof typeof quoted;
const languages = Object.keys(quoted) as Language[];

/** Of the same length: `x` for what is quoted, and spaces for comments. */
function withoutTexts(sql: string, language: Language): string {
  return sql.replaceAll(quoted[language], (found) => (/^(?:--|[#/])/.test(found) ? " " : "x").repeat(found.length));
}

/** Without what is in parentheses. */
function outermost(sql: string): string {
  for (let text = sql; ;) {
    const next = text.replaceAll(/\([^()]*\)/g, " x ");
    if (next === text) return text;
    text = next;
  }
}
