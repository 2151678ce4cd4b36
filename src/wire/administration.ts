import { z } from "zod";

/** The two values of `principalTypeEnum` (specification 2.7). */
export const principalTypes = { user: "LOCAL_USER", group: "LOCAL_GROUP" } as const;

/** A principal in the answer of `user/list` (B.9). */
export const listedPrincipal = z.strictObject({
  name: z.string(),
  displayName: z.string(),
  description: z.string().optional(),
  mail: z.string().optional(),
  principalTypeEnum: z.enum(["LOCAL_USER", "LOCAL_GROUP"]),
  groupNames: z.array(z.string()),
  visibility: z.literal("DEFAULT"),
  created: z.int(),
  modified: z.int(),
});

/** The answer of `user/sync` (specification 2.8): names sorted by code point (B.8). */
export const syncResult = z.strictObject({
  usersAdded: z.array(z.string()),
  usersDeleted: z.array(z.string()),
  usersUpdated: z.array(z.string()),
  groupsAdded: z.array(z.string()),
  groupsDeleted: z.array(z.string()),
  groupsUpdated: z.array(z.string()),
});
export type SyncResult = z.infer<typeof syncResult>;

/** The body of family A's login (specification 2.1). Other keys are ignored. */
export const loginRequest = z.object({ username: z.string(), password: z.string() });

/** The parameters of family B's login (specification 4.2), in lower case (0.3). */
export const loginParameters = z.object({
  username: z.string(),
  password: z.string(),
  /** Anything but `true`, in any case, is false. */
  rememberme: z
    .string()
    .optional()
    .transform((text) => text?.toLowerCase() === "true"),
});
