/** What people may do in the console and over the daemon's API. Each role may do what those before it may. */
export const roles = ["viewer", "approver", "administrator"] as const;
export type Role = (typeof roles)[number];

/** What somebody wants to do, with the least role that may. */
const actions = {
  /** See runs, plans, people, the audit log. */
  look: { role: "viewer", words: "looking" },
  /** Run, approve, reject and undo; test a connection. */
  decide: { role: "approver", words: "running, approving, rejecting and undoing" },
  /** Let a plan pass that its limits hold, or of which they ask for an approval. */
  override: { role: "administrator", words: "overriding limits" },
  /** Try rules: that reads the sources, and shows whatever they say of anybody. */
  "try rules": { role: "administrator", words: "trying rules" },
  /** Add, change and disable accounts and tokens of others. */
  "manage accounts": { role: "administrator", words: "managing accounts" },
  /** Add and revoke the tokens that providers push with. */
  "manage inboxes": { role: "administrator", words: "managing inboxes" },
  reload: { role: "administrator", words: "reloading the configuration" },
} as const satisfies Record<string, { readonly role: Role; readonly words: string }>;
export type Action = keyof typeof actions;

/** @param role absent: none */
export function may(role: Role | undefined, action: Action): boolean {
  return role !== undefined && roles.indexOf(role) >= roles.indexOf(actions[action].role);
}

/** Why somebody may not, and who may: `overriding limits needs the role administrator; kim has the role viewer`. */
export function refusalOf(
  { name, role }: { readonly name: string; readonly role?: Role | undefined },
  action: Action,
): string {
  const { role: needed, words } = actions[action];
  const sufficient = roles.slice(roles.indexOf(needed));
  const has = role === undefined ? "no role" : `the role ${role}`;
  return `${words} needs the role ${sufficient.join(" or ")}; ${name} has ${has}`;
}
