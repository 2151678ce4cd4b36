/**
 * The actions on a principal, in the order of a plan. `suspend` and `reactivate` are updates by which somebody stops or begins
 * to be active, in targets that know that; they may change more than that.
 */
export const actions = ["create", "update", "suspend", "reactivate", "delete"] as const;
export type Action = (typeof actions)[number];

/** The participle of each action: `created`. */
export type Words = Readonly<Record<Action, string>>;

export const usualWords: Words = {
  delete: "deleted",
  suspend: "suspended",
  create: "created",
  update: "updated",
  reactivate: "reactivated",
};

/** The same of a plan that compares two sets of rules. */
export const wordsOfComparison: Words = {
  create: "entering",
  update: "changing",
  suspend: "suspended",
  reactivate: "reactivated",
  delete: "leaving",
};

/** The actions, what people fear most first. */
export const byDanger = ["delete", "suspend", "create", "update", "reactivate"] as const satisfies readonly Action[];

/** Whether the principal is there before and after. */
export function isUpdate(action: Action): boolean {
  return action !== "create" && action !== "delete";
}

/** The same of the column `action`, as an SQL condition. */
export const isUpdateInSql = "action NOT IN ('create', 'delete')";
