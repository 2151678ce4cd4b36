import type { Change, Plan } from "#plan/change.ts";

/** What foreign directories hold, to break a page, a spreadsheet or a terminal. */
export const hostileTexts = [
  "<script>alert(1)</script>",
  "</style><script>",
  "</b></div><!--",
  "&lt;img src=x onerror=alert(1)&gt;",
  `" onmouseover="alert(1)`,
  "]]>",
  "=cmd|' /C calc'!A0",
  "+1",
  "-1",
  "@SUM(A1)",
  "＝1+1",
  "\t=1",
  "\r=1",
  "a\nb",
  'a"b',
  "\u202Egnp.exe",
  "\u2066iso",
  "\u001B[2J",
  "\u0000",
  "\uD800",
  "שלום",
];

/** A plan of these changes. */
export function planOf(changes: readonly Change[]): Plan {
  const of = (kind: Change["kind"]) => {
    const count = (action: Change["action"]) =>
      changes.filter((each) => each.kind === kind && each.action === action).length;
    return { before: 9, after: 9, create: count("create"), update: count("update"), delete: count("delete") };
  };
  return {
    digest: "0".repeat(64),
    counts: { users: of("user"), groups: of("group"), membershipsAdded: 0, membershipsRemoved: 0 },
    changes: async function* (only) {
      for (const change of changes)
        if (only === undefined || (only.kind === change.kind && only.action === change.action)) yield change;
    },
  };
}

/** Changes that have each of `hostileTexts` everywhere. */
export const hostileChanges = hostileTexts.map((text): Change => ({
  action: "update",
  kind: "user",
  name: text,
  attributes: [
    { attribute: "displayName", from: text, to: `${text} ` },
    { attribute: "mail", from: text },
  ],
  groupsAdded: [text],
  groupsRemoved: [text],
}));
