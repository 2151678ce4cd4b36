/** How the rows of an answer are written: as arrays, or as objects by column name (B.11). */
export type Format = "COMPACT" | "FULL";

/** What writes a row as JSON. */
export function rowEncoder(columnNames: readonly string[], format: Format): (row: readonly unknown[]) => string {
  return format === "COMPACT" ? JSON.stringify : objectWriter(columnNames);
}

/** Writes a row as an object. `JSON.stringify` would put columns called `1` and `2` first. */
function objectWriter(columnNames: readonly string[]): (row: readonly unknown[]) => string {
  const keys = distinctNames(columnNames).map((name, index) => `${index === 0 ? "" : ","}${JSON.stringify(name)}:`);
  return (row) => {
    let text = "{";
    for (const [index, key] of keys.entries()) text += key + JSON.stringify(row[index]);
    return `${text}}`;
  };
}

/** The second column of a name gets `_2`, the third `_3` (B.11), unless a column is called so. */
function distinctNames(columnNames: readonly string[]): string[] {
  const taken = new Set(columnNames);
  const met = new Map<string, number>();
  return columnNames.map((name) => {
    let count = (met.get(name) ?? 0) + 1;
    let distinct = name;
    if (count > 1) {
      while (taken.has(`${name}_${count}`)) count += 1;
      distinct = `${name}_${count}`;
      taken.add(distinct);
    }
    met.set(name, count);
    return distinct;
  });
}
