import { expect, test } from "vitest";
import { noticeOfRun, withoutNames } from "#notify/notice.ts";
import { textOf } from "#notify/text.ts";
import { heldRun } from "../../support/notices.ts";

test("a notice without names has the causes without values, groups and examples", () => {
  const causes = [
    ...(heldRun.causes ?? []),
    {
      id: "c3",
      kind: "attribute",
      source: "corp",
      attribute: "sn",
      from: "Secret",
      to: "Secreter",
      users: 1,
      groups: 0,
      example: { kind: "user", name: "zoe" },
    } as const,
  ];
  const notice = withoutNames(noticeOfRun("held", { ...heldRun, causes }, { names: ["- user zoe"] }));
  expect(notice.causes?.map(({ id, attribute }) => [id, attribute])).toEqual([
    ["c1", undefined],
    ["c2", undefined],
    ["c3", "sn"],
  ]);
  expect(JSON.stringify(notice)).not.toMatch(/zoe|Tigers|Secret/);
});

test("a notice says which expectations are broken, and without names not by whom", () => {
  const met = { over: "users", expect: "true", otherwise: "hold", most: 0, already: 0, violations: 0 } as const;
  const expectations = [
    { ...met, name: "badges", state: "met", examples: [] },
    { ...met, name: "mail", state: "tripped", violations: 2, examples: [{ kind: "user", name: "zoe", isNew: true }] },
  ] as const;
  const limit = { limit: "expectation:mail", of: "users", value: 2, earlier: 0, bound: 0, basis: "true" } as const;
  const limits = [{ ...limit, tripped: true, overridden: false }];
  const notice = noticeOfRun("held", { ...heldRun, expectations, limits });
  const text = (notices: readonly (typeof notice)[]): string =>
    textOf({ id: "1", createdAt: notice.at, dueAt: notice.at, notices, more: 0 }, "host");
  expect(notice.summary).toContain('held by the expectation "mail"; nothing was applied');
  expect(text([notice])).toContain(
    'Expectations that are broken:\n  "mail": 2 users break it: holds the plan\n    zoe\n    … and 1 more\n',
  );
  expect(text([notice])).not.toContain("Limits that are tripped");
  expect(notice.next.join("\n")).toContain("--override expectation:mail");
  expect(text([withoutNames(notice)])).toContain('"mail": 2 users break it');
  expect(text([withoutNames(notice)])).not.toContain("zoe");
});
