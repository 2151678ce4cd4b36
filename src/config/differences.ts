import { createHmac, hash } from "node:crypto";
import { differingKeys } from "#values.ts";
import { redactor } from "#redact.ts";
import type { Configuration, Setting } from "./configuration.ts";
import type { ConfigurationDocument } from "./document.ts";
import type { Path } from "./problems.ts";
import { renderPath } from "./problems.ts";

/** Keys that may change while Rollcall runs. Everything else needs a restart. */
const changeable = new Set<string>([
  "file",
  "text",
  "folder",
  "readTable",
  "secrets",
  "warnings",
  "settings",
  "sources",
  "syncs",
  "targets",
  "notifications",
] satisfies (keyof Configuration)[]);

/** Keys of `service:` (or `daemon:`) that the configuration has at its top level. */
const ofEither = new Set(["data", "memory"]);

/** The keys that differ but need a restart, such as `service.listen`. Without values, which may be secret. */
export function keysForRestart(before: Configuration, after: Configuration): string[] {
  const section = after.service === undefined ? "daemon" : "service";
  return differingKeys({ ...before }, { ...after })
    .filter((path) => !changeable.has(path.split(".", 1)[0] ?? ""))
    .map((path) => (ofEither.has(path) ? `${section}.${path}` : path));
}

/**
 * What distinguishes one configuration from another. Secrets are replaced by marks: equal marks, equal secrets.
 */
export interface Fingerprint {
  /** SHA-256 in hexadecimal. Comparable between fingerprints made with the same key. */
  readonly digest: string;
  /** By path: the value as JSON, or `***` and the mark of a secret. */
  readonly settings: Readonly<Record<string, string>>;
}

/** The start of a secret's mark. No JSON value starts so. */
const hidden = "***";

/**
 * @param key random and stored: marks are keyed hashes, because a plain hash would let its reader guess passwords
 */
export function fingerprint(
  { settings, secrets }: { readonly settings: readonly Setting[]; readonly secrets: readonly string[] },
  key: Buffer,
): Fingerprint {
  const redact = redactor(secrets);
  const marks = settings.map(({ path, text, secret }): [string, string] => {
    // A value that contains a secret is secret: a URL with a password.
    if (!secret && redact(text) === text) return [path, text];
    // The path is hashed too, so that two equal secrets do not show as equal.
    return [
      path,
      hidden +
        createHmac("sha256", key)
          .update(JSON.stringify([path, text]))
          .digest("hex"),
    ];
  });
  const sorted = marks.sort(([a], [b]) => (a < b ? -1 : 1));
  const digest = hash("sha256", JSON.stringify(sorted));
  return { digest, settings: Object.fromEntries(sorted) };
}

/** A person reads no more than this. */
const most = { lines: 500, characters: 200 };

/** The differences by path, one line each: `syncs.staff.manage: "owned" → "everything"`. */
export function differences(before: Fingerprint, after: Fingerprint): string[] {
  const paths = [...new Set([...Object.keys(before.settings), ...Object.keys(after.settings)])].sort();
  const lines = paths.flatMap((path) => {
    const [from, to] = [valueAt(before, path), valueAt(after, path)];
    if (from === to) return [];
    const both = from?.startsWith(hidden) === true && to?.startsWith(hidden) === true;
    return [`${path}: ${shown(from)} → ${both ? "another secret" : shown(to)}`];
  });
  return lines.length <= most.lines
    ? lines
    : [...lines.slice(0, most.lines), `and ${lines.length - most.lines} more differences`];
}

function valueAt({ settings }: Fingerprint, path: string): string | undefined {
  return Object.hasOwn(settings, path) ? settings[path] : undefined;
}

function shown(text: string | undefined): string {
  if (text === undefined) return "nothing";
  if (text.startsWith(hidden)) return hidden;
  return text.length <= most.characters ? text : `${text.slice(0, most.characters)}…`;
}

/** Every value of a file, in its order. A list of plain values counts as one value; so does an empty list or mapping. */
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
