import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ldifEntry } from "../support/ldap/ldif.ts";
import { noSamba, sambaAdministrator, sambaBase, type SambaDomain, startSamba } from "../support/ldap/samba.ts";
import { memberships, openSource, readAll } from "../contract/source/ldap-reading.ts";

const reason = await noSamba();
const staff = `OU=Staff,${sambaBase}`;

describe.skipIf(reason !== undefined)(`a domain of Samba${reason === undefined ? "" : ` (${reason})`}`, () => {
  let domain: SambaDomain;

  beforeAll(async () => {
    domain = await startSamba();
    const user = (name: string, attributes: Parameters<typeof ldifEntry>[1]): string =>
      ldifEntry(`CN=${name},${staff}`, { objectClass: "user", userAccountControl: "544", ...attributes });
    await domain.modify(
      [
        ldifEntry(staff, { objectClass: "organizationalUnit" }),
        user("Lovelace\\, Ada", { sAMAccountName: "ada", mail: "ada@example.com" }),
        user("Grace", { sAMAccountName: "grace", userAccountControl: "546" }),
        ldifEntry(`CN=Inner,${staff}`, { objectClass: "group", member: `CN=Lovelace\\, Ada,${staff}` }),
        ldifEntry(`CN=Outer,${staff}`, { objectClass: "group", member: [`CN=Inner,${staff}`, `CN=Grace,${staff}`] }),
      ].join(""),
    );
  });

  afterAll(() => domain?.[Symbol.asyncDispose]());

  const options = (more: object = {}): object => ({
    url: domain.url,
    bind: { dn: sambaAdministrator.upn, password: sambaAdministrator.password },
    users: { base: staff },
    groups: { base: sambaBase, filter: "(|(cn=Inner)(cn=Outer)(cn=Domain Users))" },
    ...more,
  });

  test("gives users, nested groups and primary groups", async () => {
    const reading = await readAll(options());
    expect(memberships(reading, "sAMAccountName")).toEqual([
      "Domain Users: ada",
      "Domain Users: grace",
      "Inner: ada",
      "Outer: Inner",
      "Outer: grace",
    ]);
    const flat = await readAll(options({ flatten: true }));
    expect(memberships(flat, "sAMAccountName")).toContain("Outer: ada");
    const ada = reading.users.find(({ attributes }) => attributes["sAMAccountName"] === "ada");
    expect(ada?.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    expect(ada?.attributes).toMatchObject({ objectGUID: ada?.id, mail: "ada@example.com" });
    expect(ada?.attributes["objectSid"]).toMatch(/^S-1-5-21-\d+-\d+-\d+-\d+$/);
  });

  test("shows who is disabled, and reads everything in small pages", async () => {
    const attributes = { users: ["sAMAccountName", "disabled"], groups: ["cn"] };
    const everything = options({ users: { base: sambaBase }, groups: { base: sambaBase }, pageSize: 5 });
    const { users, groups } = await readAll(everything, { attributes });
    const disabled = new Map(users.map((user) => [user.attributes["sAMAccountName"], user.attributes["disabled"]]));
    expect(disabled.get("ada")).toBe(false);
    expect(disabled.get("grace")).toBe(true);
    expect(disabled.get("Administrator")).toBe(false);
    expect(groups.map((group) => group.attributes["cn"])).toContain("Domain Admins");
  });

  test("finds by objectGUID, and counts containers", async () => {
    const context = { signal: new AbortController().signal, warn: () => {} };
    const source = openSource(options({ users: { base: sambaBase } }));
    const counts = new Map<string, number>();
    const read = source.read({ ...context, count: (name, amount) => void counts.set(name, amount) });
    const records = (await Array.fromAsync(read)).flat().filter((record) => record.kind !== "membership");
    const found = (await Array.fromAsync(source.find?.(records, context) ?? [])).flat();
    const ids = (some: typeof found): string[] => some.map(({ kind, id }) => `${kind} ${id}`).toSorted();
    expect(ids(found)).toEqual(ids(records));
    expect(counts.get(`users below ${staff.toLowerCase()}`)).toBe(2);
    const gone = openSource(options({ users: { base: `OU=Gone,${sambaBase}` } }));
    await expect(Array.fromAsync(gone.read(context))).rejects.toThrow(/OU=Gone,.* does not exist/);
  });

  test("tells another version exactly when something has changed", async () => {
    const source = openSource(options());
    const context = { signal: new AbortController().signal, warn: () => {} };
    // Who logs in for the first time is written down.
    await source.version?.(context);
    const version = await source.version?.(context);
    expect(version).toBeTypeOf("string");
    expect(await source.version?.(context)).toBe(version);
    await domain.modify(ldifEntry(`CN=New,${staff}`, { objectClass: "group" }));
    expect(await source.version?.(context)).not.toBe(version);
    expect((await source.describe?.(context))?.join("\n")).toContain(sambaAdministrator.upn);
  });
});
