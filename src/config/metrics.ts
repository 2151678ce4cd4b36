import { z } from "zod";
import { section, text } from "#values.ts";

const expected = "a secret of at least 16 characters, or where it is: ${env:NAME} or ${file:/path}";

/** `metrics`: who may read them. */
export const metrics = section({
  token: text(expected)
    .regex(/^[\x21-\x7E]{16,}$/, { error: `expected ${expected}; letters, digits and signs of ASCII, no spaces` })
    .exactOptional()
    .describe("A bearer token that whoever reads /metrics must have. Absent: whoever is on this machine reads them."),
  open: z.boolean().prefault(false).describe("true: everybody may read /metrics."),
});
