import { describe, expect, test } from "vitest";
import { deletions, renames } from "#plan/departure-options.ts";
import { Attributes, serviceAttributes } from "#principals/attributes.ts";

const day = 86_400_000;

/** A target that can suspend users, and rename them. */
const able = new Attributes([
  { name: "userName", type: "text", kind: "user", isName: "user" },
  { name: "active", type: "boolean", kind: "user" },
]);

function read(value: unknown, attributes = able): unknown {
  const { data, error } = deletions(attributes).safeParse(value);
  return data ?? error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

describe("who leaves the sources", () => {
  test.each([
    [undefined, { suspend: 0, after: 0, never: ["user"] }],
    [null, { suspend: 0, after: 0, never: ["user"] }],
    [
      { suspend: "now", after: "90d" },
      { suspend: 0, after: 90 * day },
    ],
    [{ after: "7d" }, { suspend: 0, after: 7 * day }],
    [{ suspend: "7d" }, { suspend: 7 * day, after: 0, never: ["user"] }],
    [{ delete: "never" }, { suspend: 0, after: 0, never: ["user", "group"] }],
    [
      { suspend: "never", delete: "never" },
      { after: 0, never: ["user", "group"] },
    ],
    [{ suspend: "never", after: "7d" }, { after: 7 * day }],
    [{ after: 0 }, { after: 0 }],
  ])("of a target that can suspend: %j", (value, stages) => {
    expect(read(value)).toEqual(stages);
  });

  test.each([
    [{ delete: "never", after: "7d" }, /^after: nobody is deleted \(`delete: never`\); remove one of them$/],
    [{ suspend: "7d", after: "7d" }, /^suspend: users would be deleted before they are suspended/],
    [{ suspend: "never" }, /^suspend: then say when users are deleted/],
    [{ suspend: "later" }, /^suspend: expected now, never or a duration like 7d$/],
    [{ delete: "always" }, /^delete: expected never$/],
    [{ suspends: "now" }, /suspends/],
  ])("has what cannot be: %j", (value, problem) => {
    expect(read(value)).toEqual([expect.stringMatching(problem)]);
  });

  test("of a target that cannot suspend: as ever, and the new keys are errors", () => {
    expect(read(undefined, serviceAttributes)).toEqual({ after: 0 });
    expect(read({ after: "7d" }, serviceAttributes)).toEqual({ after: 7 * day });
    expect(read({ suspend: "now", delete: "never" }, serviceAttributes)).toEqual([
      "suspend: the target cannot suspend users; remove it",
      "delete: the target cannot suspend users; remove it",
    ]);
  });
});

test("names change in place where the target can do that", () => {
  expect(renames(able).parse(undefined)).toBe("inPlace");
  expect(renames(able).parse("recreate")).toBe("apply");
  expect(renames(serviceAttributes).parse(undefined)).toBe("apply");
  expect(renames(serviceAttributes).safeParse("inPlace").error?.issues).toMatchObject([
    { message: "the target cannot change a name in place: expected hold or apply" },
  ]);
});
