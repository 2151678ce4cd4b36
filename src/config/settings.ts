import type { ConfigurationDocument } from "./document.ts";
import type { Path } from "./problem.ts";
import { renderPath } from "./problem.ts";

/** One value that stands in the file. */
export interface Setting {
  /** `syncs.staff.from`. */
  readonly path: string;
  /** As JSON, with what was filled in: it may be a secret. */
  readonly text: string;
  /** It came from outside of the file, or stands where secrets do. */
  readonly secret: boolean;
}

/** Every value of a file in its order. A list of plain values is one value, and so is what has nothing in it. */
export function settingsOf(document: ConfigurationDocument): Setting[] {
  const settings: Setting[] = [];
  const visit = (value: unknown, path: Path): void => {
    const parts = partsOf(value);
    const isOne =
      parts.length === 0 || (Array.isArray(value) && parts.every(([step, part]) => isPlain(part, step, path)));
    if (isOne) settings.push({ path: renderPath(path), text: JSON.stringify(value), secret: document.secret(path) });
    else for (const [step, part] of parts) visit(part, [...path, step]);
  };
  const isPlain = (part: unknown, step: string | number, path: Path): boolean =>
    (typeof part !== "object" || part === null) && !document.secret([...path, step]);
  visit(document.value, []);
  return settings;
}

function partsOf(value: unknown): (readonly [string | number, unknown])[] {
  if (typeof value !== "object" || value === null) return [];
  return Array.isArray(value) ? [...value.entries()] : Object.entries(value);
}
