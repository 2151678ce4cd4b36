/** What a client does, again and again. */
export const roles = [
  "list",
  "preview",
  "previewAll",
  "load",
  "loadShared",
  "loadReplaced",
  "query",
  "sql",
  "member",
  "guess",
  "mistake",
  "hangUp",
] as const;
export type Role = (typeof roles)[number];

/** A process with clients, each with a connection and a number of its own. */
export interface ClientsRequest {
  readonly url: string;
  /** The session of commands on this machine. */
  readonly session: string;
  /** That of all users whom the source brings. */
  readonly password: string;
  readonly users: number;
  /** With several roles a client has them in turn. */
  readonly clients: readonly { readonly id: number; readonly roles: readonly Role[] }[];
}

/** What the process is told: a version is about to be applied, or it is to end. */
export type Told = { readonly version: number } | "end";
