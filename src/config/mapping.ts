import { z } from "zod";
import { section } from "#values.ts";
import * as values from "#values.ts";

/** An expression over `entry`, which gives what the key is about. */
export const expression = (example: string) => values.text(`a CEL expression like ${example}`);

const byDefault = (text: z.ZodType<string>) =>
  z.strictObject({ default: text.describe("The value where the source has none.") });

/** An expression, or one beside what it means that the source has no value. */
const attribute = <Absence extends z.ZodType>(example: string, absence: Absence) =>
  z.union([
    expression(example),
    z.strictObject({
      value: expression(example).exactOptional().describe("A CEL expression. Absent: there never is a value."),
      absent: absence,
    }),
  ]);

const absentText = z
  .union([z.literal("keep"), z.literal("clear"), byDefault(values.text("a text"))])
  .describe("What no value means. keep: what the target has stays. clear: it is unset. Or { default: a text }.");
const absentName = z
  .union([z.literal("keep"), byDefault(values.principalName)])
  .describe("What no value means. keep: what the target has stays, or else the name. Or { default: a text }.");
/** Names of groups that something is directly in. */
export const groupList = z.array(values.principalName, { error: 'expected a list of group names like ["everyone"]' });

const rules = {
  include: expression('entry.status == "active"')
    .exactOptional()
    .describe("True for the entries to take. Absent: all."),
  exclude: expression('entry.type == "service"')
    .exactOptional()
    .describe("True for the entries to leave out of those."),
  name: expression("lower(entry.uid)").describe("The name that identifies the principal."),
  displayName: attribute("entry.cn", absentName).describe("The name that people see."),
  description: attribute("entry.title", absentText).exactOptional().describe("A text or null."),
  groups: expression('["everyone"]').exactOptional().describe("Names of further groups it is directly in."),
};

/** Expressions for users. */
export const userRules = z.strictObject({
  ...rules,
  mail: attribute("entry.mail", absentText).exactOptional().describe("An address or null."),
});

/** Expressions for groups, which have no mail (B.5). */
export const groupRules = z.strictObject({
  ...rules,
  rename: z
    .record(values.principalName, values.principalName)
    .exactOptional()
    .describe("Other names for groups: the name that the rules give, and the one it gets."),
});

/** A group that exists whatever the sources say. */
export const staticGroup = section({
  displayName: values.principalName.exactOptional().describe("The name that people see. Absent: its name."),
  description: z.string({ error: "expected a text" }).exactOptional().describe("A text."),
  groups: groupList.prefault([]).describe("Names of groups that it is directly in."),
});
