export type Kind = "user" | "group";

/**
 * A user or a group as the interface knows it (2.7). `name` identifies it together with `kind`; names are compared
 * exactly (B.5). Without `description` or `mail` the attribute is unset; groups never have a `mail` (B.5). `groupNames`
 * is a set, sorted by code point (B.6).
 */
export interface Principal {
  readonly kind: Kind;
  readonly name: string;
  readonly displayName: string;
  readonly description?: string | undefined;
  readonly mail?: string | undefined;
  readonly groupNames: readonly string[];
}

/** The longest name or display name, in code points (B.5). */
const longestName = 255;

/** What is wrong with a text as a name or display name (B.5); undefined when nothing is. */
export function objectionToName(text: string): string | undefined {
  if (text === "") return "is empty";
  // A code point takes one or two units: only in between do they have to be counted.
  const { length } = text;
  if (length > longestName && (length > 2 * longestName || Array.from(text).length > longestName))
    return `is longer than ${longestName} characters`;
  if (/\p{Cc}/u.test(text)) return "has control characters";
  return undefined;
}
