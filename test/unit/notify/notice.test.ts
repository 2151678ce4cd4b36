import { expect, test } from "vitest";
import { noticeOfOverdue, noticeOfRun, withLink, withoutNames } from "#notify/notice.ts";
import { chatText, teamsMessage, textOf } from "#notify/text.ts";
import { heldRun } from "../../support/notices.ts";
import { pendingRun } from "../../support/runs.ts";

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

test("a notice links to the plan that waits, or to the run, below the address of the console", () => {
  const waiting = withLink(noticeOfRun("pending", pendingRun("20261121-100000-000001")), "https://x.example/rollcall");
  expect(waiting.link).toBe("https://x.example/rollcall/runs/20261121-100000-000001/plan");
  const ended = withLink(noticeOfRun("failed", pendingRun("20261121-100000-000001")), "https://x.example");
  expect(ended.link).toBe("https://x.example/runs/20261121-100000-000001");
  const overdue = noticeOfOverdue("staff", "2026-11-21T10:00:00.000Z");
  expect(withLink(overdue, "https://x.example")).toBe(overdue);
  const message = { id: "1", createdAt: waiting.at, dueAt: waiting.at, notices: [waiting], more: 0 };
  expect(textOf(message, "host")).toContain(`Console: ${waiting.link}`);
  expect(chatText(message, "host")).toContain(`\n${waiting.link}\n`);
  expect(JSON.stringify(teamsMessage(message, "host"))).toContain(`"url":"${waiting.link}"`);
});
