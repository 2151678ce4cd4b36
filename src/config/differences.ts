import { isDeepStrictEqual } from "node:util";
import type { Configuration } from "./configuration.ts";

/** What may change while Rollcall runs, and where the configuration came from. Everything else needs a restart. */
const changeable = new Set<string>([
  "file",
  "folder",
  "secrets",
  "settings",
  "sources",
  "syncs",
  "targets",
  "notifications",
] satisfies (keyof Configuration)[]);

/** Keys of `service:`, or of `daemon:` where there is none, that the configuration has at its top. */
const ofEither = new Set(["data", "memory"]);

/** The keys that differ and cannot change while Rollcall runs: `service.listen`. No values: there may be secrets. */
export function keysForRestart(before: Configuration, after: Configuration): string[] {
  const section = after.service === undefined ? "daemon" : "service";
  return differing({ ...before }, { ...after }, "")
    .map((path) => path.slice(1))
    .filter((path) => !changeable.has(path.split(".", 1)[0] ?? ""))
    .map((path) => (ofEither.has(path) ? `${section}.${path}` : path));
}

function differing(before: unknown, after: unknown, path: string): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isMapping(before) || !isMapping(after)) return [path];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => differing(before[key], after[key], `${path}.${key}`));
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
