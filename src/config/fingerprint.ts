import { createHash, createHmac } from "node:crypto";
import { redactor } from "#http/redact.ts";
import type { Setting } from "./settings.ts";

/**
 * What a configuration is told from another one by. No secret is in it: in its place is a mark, which is another one
 * for another secret.
 */
export interface Fingerprint {
  /** SHA-256 in hexadecimal. That of two configurations can be compared where both were made with one key. */
  readonly digest: string;
  /** By path: the value as JSON, or of a secret `***` and its mark. */
  readonly settings: Readonly<Record<string, string>>;
}

/** What the marks of secrets begin with; no value as JSON does. */
const hidden = "***";

/**
 * @param key random, and kept: the mark of a secret is a keyed hash, as a plain one would let anybody who sees it try
 *   passwords against it
 */
export function fingerprint(
  { settings, secrets }: { readonly settings: readonly Setting[]; readonly secrets: readonly string[] },
  key: Buffer,
): Fingerprint {
  const redact = redactor(secrets);
  const marks = settings.map(({ path, text, secret }): [string, string] => {
    // A value that has a secret in it, such as the address of a server with a password, is one.
    if (!secret && redact(text) === text) return [path, text];
    // The path is hashed too: that two secrets are the same one is nobody's business either.
    return [
      path,
      hidden +
        createHmac("sha256", key)
          .update(JSON.stringify([path, text]))
          .digest("hex"),
    ];
  });
  const sorted = marks.sort(([a], [b]) => (a < b ? -1 : 1));
  const digest = createHash("sha256").update(JSON.stringify(sorted)).digest("hex");
  return { digest, settings: Object.fromEntries(sorted) };
}

/** More than a person reads. */
const most = { lines: 500, characters: 200 };

/** What is different, one line each, by path: `syncs.staff.manage: "owned" → "everything"`. */
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
