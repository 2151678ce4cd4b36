import { z } from "zod";

/** The two values of `principalTypeEnum` (specification 2.7). */
export const principalTypes = { user: "LOCAL_USER", group: "LOCAL_GROUP" } as const;

const kind = z.enum(["LOCAL_USER", "LOCAL_GROUP"]).describe("`LOCAL_USER` or `LOCAL_GROUP`.");
const names = z.array(z.string());

/**
 * A principal as `user/sync` takes it (specification 2.7). The service checks whole lists in SQL (B.5); this schema
 * documents one element, and the tests hold both to the same examples.
 */
export const submittedPrincipal = z
  .object({
    name: z
      .string()
      .min(1)
      .max(255)
      .describe("Identifies the principal together with its kind. Unique among users and, separately, among groups."),
    displayName: z.string().min(1).max(255).describe("The name people see."),
    description: z.string().nullish().describe("Absent or empty clears it."),
    mail: z.string().nullish().describe("Users only; ignored for groups. Absent or empty clears it."),
    principalTypeEnum: kind,
    password: z
      .string()
      .nullish()
      .describe("Used only when the user is created; an existing user's password never changes. Ignored for groups."),
    groupNames: names.nullish().describe("The groups the principal is directly in, as a set. Absent means none."),
  })
  .describe("A user or a group. Unknown fields are ignored.");

/** A principal in the answer of `user/list` (B.9). */
export const listedPrincipal = z
  .strictObject({
    name: z.string(),
    displayName: z.string(),
    description: z.string().optional().describe("Present when it is set."),
    mail: z.string().optional().describe("Always present for users; empty when unset."),
    principalTypeEnum: kind,
    groupNames: names.describe("The groups it is directly in."),
    visibility: z.literal("DEFAULT"),
    created: z.int().describe("Epoch milliseconds."),
    modified: z.int().describe("Epoch milliseconds; changes with an attribute or a membership of this principal."),
  })
  .describe("A user or a group.");

/** The answer of `user/sync` (specification 2.8): names sorted by code point (B.8). */
export const syncResult = z
  .strictObject({
    usersAdded: names,
    usersDeleted: names,
    usersUpdated: names,
    groupsAdded: names,
    groupsDeleted: names,
    groupsUpdated: names,
  })
  .describe("The changes that were made or, without `applyChanges`, that would be. Names are sorted by code point.");
export type SyncResult = z.infer<typeof syncResult>;

/** The body of family A's login (specification 2.1). Other keys are ignored. */
export const loginRequest = z.object({ username: z.string(), password: z.string() });

/** The parameters of family B's login (specification 4.2), in lower case (0.3). */
export const loginParameters = z.object({
  username: z.string(),
  password: z.string(),
  rememberme: z
    .string()
    .optional()
    .describe("`true`, in any case, keeps the session for days instead of hours. Anything else is false.")
    .transform((text) => text?.toLowerCase() === "true"),
});
