/** Where a value stands in the file: keys and list indexes from the top. */
export type Path = readonly (string | number)[];

/** One thing that is wrong, at its place in the file. Lines and columns count from 1. Never holds a secret. */
export interface Problem {
  readonly line: number;
  readonly column: number;
  readonly path: Path;
  readonly message: string;
}

/** A path as it is read: `syncs.staff.from[0]`; keys with other characters than a name's are quoted: `targets["a b"]`. */
export function renderPath(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      if (!/^[\w-]+$/.test(step)) return `[${JSON.stringify(step)}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join("");
}

/** Every problem as a line of its own, in the order of the file, none twice. */
export function renderProblems(file: string, problems: readonly Problem[]): string[] {
  const lines = [...problems]
    .sort((a, b) => a.line - b.line || a.column - b.column)
    .map(({ line, column, path, message }) => {
      const place = path.length === 0 ? "" : `${renderPath(path)}: `;
      return `${file}:${line}:${column}: ${place}${message}`;
    });
  return [...new Set(lines)];
}
