import { expect, test } from "vitest";
import { Attributes, serviceAttributes } from "#principals/attributes.ts";
import { createPlan } from "#plan/diff.ts";
import { findSuspicious } from "#plan/suspicious.ts";
import { tablesOf } from "#plan/tables.ts";
import { useConnection } from "../../support/duckdb.ts";
import { attributesOfObjects } from "../../support/object-target.ts";
import { fill } from "./directories.ts";
import type { ServicePrincipal } from "./directories.ts";

const connection = useConnection();

function user(name: string, values: Partial<ServicePrincipal> = {}): ServicePrincipal {
  return { kind: "user", name, displayName: name, groupNames: [], ...values };
}

async function suspicious(
  actual: readonly ServicePrincipal[],
  desired: readonly ServicePrincipal[],
  ignoresCase = false,
) {
  await fill(connection(), "actual", actual);
  await fill(connection(), "desired", desired);
  await createPlan(connection(), serviceAttributes);
  const { unseen, addresses, alike } = await findSuspicious(connection(), serviceAttributes, { ignoresCase });
  return {
    unseen: unseen.examples.map(({ name, attribute }) => `${name} ${attribute}`),
    addresses: addresses.examples.map(({ name, value }) => `${name} ${value}`),
    alike: alike.examples.map(({ name, other }) => `${name} ${other}`),
  };
}

test("white space at an end and invisible characters are found, those that a language needs are not", async () => {
  const found = await suspicious(
    [],
    [
      user("ada", { mail: "ada\u200B@example.com" }),
      user("bob", { mail: " bob@example.com" }),
      user("cem", { description: "at work\u00A0" }),
      user("dina", { description: "first line\r\nsecond line" }),
      user("eve", { description: "Anne\u00A0Marie, \u{1F469}\u200D\u{1F680}" }),
      user("nima", { description: "می\u200Cخواهم" }),
      user("omar", { description: "a\u0007bell" }),
    ],
  );
  expect(found.unseen).toEqual(["ada mail", "bob mail", "cem description", "omar description"]);
});

test("a mail value that is not one address is found", async () => {
  const found = await suspicious(
    [],
    [
      user("ada", { mail: "ada@example.com" }),
      user("bob", { mail: "bob@example.com; b@example.com" }),
      user("cem", { mail: "n/a" }),
      user("dina", { mail: "Dina <dina@example.com>" }),
      user("jörg", { mail: "jörg+news@münchen.example" }),
    ],
  );
  expect(found.addresses).toEqual(["bob bob@example.com; b@example.com", "cem n/a", "dina Dina <dina@example.com>"]);
});

test("what the target has already, and what leaves it, is not said again", async () => {
  const odd = user("ada", { mail: "ada" });
  expect(await suspicious([odd], [{ ...odd, displayName: "Ada" }])).toEqual({ unseen: [], addresses: [], alike: [] });
  expect(await suspicious([odd], [])).toEqual({ unseen: [], addresses: [], alike: [] });
});

test("of a list, only what the target does not have yet is said", async () => {
  const several = new Attributes(attributesOfObjects);
  const { actual, desired } = tablesOf(several);
  await connection().run(`
    CREATE OR REPLACE TABLE actual (${actual});
    CREATE OR REPLACE TABLE desired (${desired});
    INSERT INTO actual BY NAME SELECT 'user' AS kind, 'ada' AS name, ['n/a', 'old'] AS emails, [] AS group_names;
    INSERT INTO desired BY NAME SELECT * REPLACE (['n/a', 'new'] AS emails) FROM actual;
    INSERT INTO desired BY NAME SELECT 'user' AS kind, 'bob' AS name, ['none', 'bob@example.com'] AS emails, [] AS group_names`);
  await createPlan(connection(), several);
  const { addresses } = await findSuspicious(connection(), several, {});
  expect(addresses.examples.map(({ name, value }) => `${name} ${value}`)).toEqual(["ada new", "bob none"]);
});

test("a new name that differs from another one in case alone is found, unless the target takes them for the same", async () => {
  const [ada, other] = [user("ada"), user("Ada")];
  expect((await suspicious([ada], [ada, other])).alike).toEqual(["Ada ada"]);
  expect((await suspicious([ada, other], [ada, other])).alike).toEqual([]);
  expect((await suspicious([ada], [ada, { ...other, kind: "group" }])).alike).toEqual([]);
  expect((await suspicious([ada], [ada, other], true)).alike).toEqual([]);
});
