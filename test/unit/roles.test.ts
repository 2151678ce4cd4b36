import { expect, test } from "vitest";
import { may, refusalOf } from "#roles.ts";
import type { Action } from "#roles.ts";
import { actorWords, mayBe, personOf } from "#state/record.ts";

const all: readonly Action[] = ["look", "decide", "override", "try rules", "manage accounts", "reload"];

test("each role may do what the ones before it may, and nobody without one may do anything", () => {
  expect(all.filter((action) => may(undefined, action))).toEqual([]);
  expect(all.filter((action) => may("viewer", action))).toEqual(["look"]);
  expect(all.filter((action) => may("approver", action))).toEqual(["look", "decide"]);
  expect(all.filter((action) => may("administrator", action))).toEqual(all);
});

test("a refusal says who may", () => {
  expect(refusalOf({ name: "kim", role: "viewer" }, "decide")).toBe(
    "running, approving, rejecting and undoing needs the role approver or administrator; kim has the role viewer",
  );
  expect(refusalOf({ name: "kim" }, "override")).toBe(
    "overriding limits needs the role administrator; kim has no role",
  );
});

test("a person is who they are at whoever vouches for them, not their name alone", () => {
  const ada = { name: "ada", from: "192.0.2.7" };
  const person = personOf({ ...ada, via: "account" });
  // Elsewhere, with a token: the same.
  expect(personOf({ ...ada, from: "192.0.2.8", via: "account", token: "laptop" })).toBe(person);
  for (const other of [
    { ...ada, via: "service" },
    { ...ada, via: "oidc", id: "ada" },
    { ...ada, via: "target", id: "analytics" },
    { name: "bob", from: ada.from, via: "account" },
  ] as const)
    expect(personOf(other)).not.toBe(person);
  // A provider may give the same person another name, and the same name to another.
  const subject = { ...ada, via: "oidc", id: "4711" } as const;
  expect(personOf({ ...subject, name: "ada.lovelace" })).toBe(personOf(subject));
  expect(personOf({ ...subject, id: "4712" })).not.toBe(personOf(subject));
  // Whoever may read the data folder says any name.
  expect(personOf({ name: "ada", from: "command line", via: "command line" })).toBe(
    personOf({ name: "bob", from: "command line" }),
  );
});

test("the same name in another case is one person: a target may take both for one user", () => {
  const typed = { name: "ada", from: "192.0.2.7", via: "target", id: "analytics" } as const;
  for (const name of ["Ada", "ADA", " ada"]) expect(personOf({ ...typed, name })).toBe(personOf(typed));
  expect(personOf({ ...typed, id: "reports" })).not.toBe(personOf(typed));
});

test("a record of before 0.3 has a name alone: everybody of that name may be the one", () => {
  const old = { name: "ada", from: "192.0.2.7" };
  expect(mayBe({ ...old, name: "Ada", via: "service" }, old)).toBe(true);
  expect(mayBe({ ...old, name: "bob", via: "service" }, old)).toBe(false);
  expect(mayBe({ ...old, via: "account" }, { ...old, via: "service" })).toBe(false);
});

test("who did it says how they signed in, once", () => {
  expect(actorWords({ name: "ada", from: "command line", via: "command line" })).toBe("ada (command line)");
  // Nobody says which account of the machine it is.
  expect(actorWords({ name: "command line", from: "command line", via: "command line" })).toBe("command line");
  expect(actorWords({ name: "ada", from: "192.0.2.7", via: "oidc", id: "4711" })).toBe(
    "ada (single sign-on, 192.0.2.7)",
  );
  expect(actorWords({ name: "ada", from: "192.0.2.7", via: "account", token: "laptop" })).toBe(
    "ada (local account, token laptop, 192.0.2.7)",
  );
  expect(actorWords({ name: "rollcall", from: "schedule" })).toBe("rollcall (schedule)");
  expect(actorWords({ name: "x", from: "x" })).toBe("x");
});
