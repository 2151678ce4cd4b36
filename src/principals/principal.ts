/** What a principal is: a user or a group. */
export type Kind = "user" | "group";

/**
 * A user or a group as the interface knows it (specification 2.7). `name` identifies it together with `kind`;
 * names are compared exactly (B.5). Absent `description` and `mail` mean unset; groups never have a `mail` (B.5).
 * `groupNames` is a set, sorted by code point (B.6).
 */
export interface Principal {
  readonly kind: Kind;
  readonly name: string;
  readonly displayName: string;
  readonly description?: string;
  readonly mail?: string;
  readonly groupNames: readonly string[];
}
