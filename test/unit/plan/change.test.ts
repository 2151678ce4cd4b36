import { describe, expect, test } from "vitest";
import { changeOf } from "#plan/change.ts";
import type { Principal } from "#principals/principal.ts";

const ada: Principal = {
  kind: "user",
  name: "ada",
  displayName: "Ada Lovelace",
  description: undefined,
  mail: "ada@example.com",
  groupNames: ["analysts", "staff"],
};

describe("a change", () => {
  test("of a creation lists every attribute that is set and every group", () => {
    expect(changeOf("create", undefined, ada)).toEqual({
      action: "create",
      kind: "user",
      name: "ada",
      attributes: [
        { attribute: "displayName", to: "Ada Lovelace" },
        { attribute: "mail", to: "ada@example.com" },
      ],
      groupsAdded: ["analysts", "staff"],
      groupsRemoved: [],
    });
  });

  test("of a deletion is the reverse", () => {
    expect(changeOf("delete", ada, undefined)).toEqual({
      action: "delete",
      kind: "user",
      name: "ada",
      attributes: [
        { attribute: "displayName", from: "Ada Lovelace" },
        { attribute: "mail", from: "ada@example.com" },
      ],
      groupsAdded: [],
      groupsRemoved: ["analysts", "staff"],
    });
  });

  test("of an update lists what differs alone: set, changed and cleared attributes in their order, single groups", () => {
    const after: Principal = {
      kind: "user",
      name: "ada",
      displayName: "Ada King",
      description: "Countess",
      groupNames: ["board", "staff"],
    };
    expect(changeOf("update", ada, after)).toEqual({
      action: "update",
      kind: "user",
      name: "ada",
      attributes: [
        { attribute: "displayName", from: "Ada Lovelace", to: "Ada King" },
        { attribute: "description", to: "Countess" },
        { attribute: "mail", from: "ada@example.com" },
      ],
      groupsAdded: ["board"],
      groupsRemoved: ["analysts"],
    });
  });

  test("keeps awkward group names, and their order by code point", () => {
    const awkward = ["", "10", "9", "__proto__", "constructor", "hasOwnProperty", "toString", "\uFFFD", "\u{1F600}"];
    const none: Principal = { ...ada, groupNames: [] };
    const all: Principal = { ...ada, groupNames: awkward };
    expect(changeOf("update", none, all)).toMatchObject({ groupsAdded: awkward, groupsRemoved: [] });
    expect(changeOf("update", all, none)).toMatchObject({ groupsAdded: [], groupsRemoved: awkward });
    expect(changeOf("update", all, all)).toMatchObject({ attributes: [], groupsAdded: [], groupsRemoved: [] });
  });
});
