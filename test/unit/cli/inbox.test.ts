import { expect, test } from "vitest";
import { inboxLines } from "#cli/inbox.ts";

test("an inbox names the tokens that were used last, the newest first", () => {
  const tokens = [3, 7, 1, 6, 4, 2, 5].map((day) => ({
    id: `${day}`,
    name: `day ${day}`,
    created: "2026-11-01T00:00:00.000Z",
    used: `2026-11-0${day}T00:00:00.000Z`,
  }));
  const unused = { id: "8", name: "never", created: "2026-11-01T00:00:00.000Z" };
  const status = { source: "okta", users: 2, groups: 1, last: "2026-11-07T00:00:00.000Z", losses: [], tokens };
  const lines = inboxLines({ ...status, tokens: [unused, ...tokens] }, Date.parse("2026-11-08T00:00:00.000Z"));
  expect(lines.filter((line) => line.startsWith("token ")).map((line) => line.slice(0, 11))).toEqual([
    "token day 7",
    "token day 6",
    "token day 5",
    "token day 4",
    "token day 3",
  ]);
});
