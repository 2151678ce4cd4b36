import { z } from "zod";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import type { NamePolicies } from "./renames.ts";
import type { Stages } from "./stages.ts";
import * as values from "#values.ts";

export type { Stages } from "./stages.ts";
export type RenamePolicy = NamePolicies["renames"];

const noTime = "expected 0 or a duration like 7d";
const zero = values.wholeNumber(0, 0, noTime);

const input = values.section({
  suspend: z
    .union([z.enum(["now", "never"]), values.duration], { error: "expected now, never or a duration like 7d" })
    .exactOptional()
    .describe(
      "When to suspend a user who left the sources, in targets that can. now: at once, the default there. never: only delete. Or how long to wait.",
    ),
  after: z
    .union([zero, values.duration], { error: noTime })
    .exactOptional()
    .describe(
      "How long to wait before deleting a user or group that left the sources. 0: delete at once. Absent: at once, but users who can be suspended are never deleted.",
    ),
  delete: z
    .literal("never", { error: "expected never" })
    .exactOptional()
    .describe("never: users are suspended and groups stay, for good. In targets that can suspend users."),
});

const cannot = "the target cannot suspend users; remove it";

/** `syncs.NAME.deletions` of a sync whose target declares these attributes. */
export function deletions({ state }: Attributes) {
  return input.transform((given, context): Stages => {
    const fail = (key: keyof typeof given, message: string): void =>
      context.addIssue({ code: "custom", path: [key], message, input: given[key] });
    const { suspend, after, delete: never } = given;
    if (state === undefined) {
      if (suspend !== undefined) fail("suspend", cannot);
      if (never !== undefined) fail("delete", cannot);
      return { after: after ?? 0 };
    }
    if (never !== undefined && after !== undefined)
      fail("after", "nobody is deleted (`delete: never`); remove one of them");
    if (suspend === "never" && never === undefined && after === undefined)
      fail("suspend", "then say when users are deleted: add `after`, such as `after: 7d`");
    const wait = suspend === undefined || suspend === "now" ? 0 : suspend;
    if (typeof suspend === "number" && after !== undefined && after <= suspend)
      fail("suspend", "users would be deleted before they are suspended: make `after` longer, or remove `suspend`");
    const kept: Record<string, readonly Kind[]> = { never: ["user", "group"], absent: ["user"] };
    return {
      after: after ?? 0,
      ...(after === undefined ? { never: kept[never ?? "absent"] } : {}),
      // An account that is deleted at once need not be suspended.
      ...(wait === "never" || after === 0 ? {} : { suspend: wait }),
    };
  });
}

const inPlace = "the target cannot change a name in place: expected hold or apply";

/** `syncs.NAME.renames`, likewise. */
export function renames({ all }: Attributes) {
  const able = all.some(({ isName }) => isName !== undefined);
  return z
    .enum(["hold", "apply", "recreate", "inPlace"])
    .prefault(able ? "inPlace" : "apply")
    .transform((value, context): RenamePolicy => {
      if (value === "inPlace" && !able) context.addIssue({ code: "custom", message: inPlace, input: value });
      return value === "recreate" ? "apply" : value;
    });
}
