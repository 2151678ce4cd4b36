import { expect, test } from "vitest";
import { noticeOfRun, withoutNames } from "#sync/notify/notice.ts";
import { heldRun } from "../../../support/notices.ts";

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
