import { z } from "zod";

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
