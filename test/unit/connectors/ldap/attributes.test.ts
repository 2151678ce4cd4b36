import { expect, test } from "vitest";
import { canBe, formOf, guidOf, inFilter, selectionOf, sidInFilter, sidOf } from "#connectors/ldap/attributes.ts";
import ldap from "#connectors/ldap/index.ts";
import { options as schema, placesOf } from "#connectors/ldap/options.ts";
import type { Options } from "#connectors/ldap/options.ts";

function optionsWith(more: object = {}): Options {
  return schema.parse({
    url: "ldap://localhost",
    users: { base: "ou=people,dc=x" },
    groups: { base: "ou=groups,dc=x" },
    ...more,
  });
}

test("asks for what rules use and the connector needs, and nothing else", () => {
  const { request } = selectionOf("user", optionsWith(), { users: ["mail", "dn", "not an attribute"], groups: ["cn"] });
  expect(request).toContain("mail");
  expect(request).toContain("entryuuid");
  expect(request).toContain("primarygroupid");
  for (const name of ["*", "cn", "dn", "not an attribute", "useraccountcontrol", "member"]) {
    expect(request).not.toContain(name);
  }
  expect(selectionOf("group", optionsWith(), { users: [], groups: [] }).request).toContain("member");
  expect(selectionOf("user", optionsWith(), undefined).request).toContain("*");
});

test("gives attributes the names that rules use", () => {
  const wanted = { users: ["Mail", "mail", "surname", "cn;lang-DE"], groups: [] };
  const { useOf } = selectionOf("user", optionsWith(), wanted);
  expect(useOf("mail")?.names).toEqual(["Mail", "mail"]);
  expect(useOf("sn")?.names).toEqual(["surname"]);
  expect(useOf("CN;lang-de")?.names).toEqual(["cn;lang-DE"]);
  expect(useOf("cn")).toBeUndefined();
  expect(useOf("mail;lang-de")).toBeUndefined();
});

test("takes parts of a list for the list", () => {
  const { useOf } = selectionOf("group", optionsWith(), { users: [], groups: [] });
  expect(useOf("member;range=0-1499")).toMatchObject({
    name: "member",
    roles: ["member"],
    range: { from: 0, next: 1500 },
  });
  expect(useOf("member;range=1500-*")?.range).toEqual({ from: 1500 });
});

test("never has secrets, and has members only for itself", () => {
  const all = selectionOf("group", optionsWith(), undefined);
  expect(all.useOf("userPassword")).toBeUndefined();
  expect(all.useOf("USERPASSWORD;x-scheme")).toBeUndefined();
  expect(all.useOf("member")?.names).toEqual([]);
  expect(all.useOf("cn")?.names).toEqual(["cn"]);
  expect(
    selectionOf("group", optionsWith(), { users: [], groups: ["userPassword", "member"] }).useOf("member")?.names,
  ).toEqual(["member"]);
});

test.each<[object, string, RegExp]>([
  [{ url: "http://x" }, "url", /ldaps:\/\/HOST/],
  [{ url: [] }, "url", /at least one/],
  [{ url: "ldaps://reader:hunter2@x" }, "url", /belong to bind/],
  [{ url: "ldaps://x/dc=x" }, "url", /users\.base/],
  [{ url: "ldapi://%zz" }, "url", /ldapi:\/\/%2Fpath/],
  [{ users: { base: "people" } }, "users.base", /distinguished name/],
  [{ users: { base: ["ou=a,dc=x", "OU=A, dc=x"] } }, "users.base", /OU=A, dc=x is there twice/],
  [{ users: { base: { dn: "people" } } }, "users.base", /distinguished name/],
  [{ users: { base: { dn: "ou=a,dc=x", minEntries: -1 } } }, "users.base", />=0/],
  [{ emptyContainers: "ignored" }, "emptyContainers", /fail or allowed/],
  [{ users: { base: "dc=x", filter: "(cn=a" } }, "users.filter", /filter/],
  [{ url: "ldaps://x", tls: { starttls: true } }, "tls.starttls", /ldap:\/\/ only/],
  [{ url: "ldap://x", tls: { ca: "ca.pem" } }, "tls.ca", /no effect/],
  [{ url: "ldaps://x", tls: { cert: "a.pem" } }, "tls.cert", /belong together/],
  [{ bind: { dn: "cn=x", password: "" } }, "bind.password", /password/],
  [{ membership: ["members"] }, "membership.0", /uniqueMember/],
  [{ limits: { read: "60" } }, "limits.read", /duration/],
  [{ filter: "x" }, "", /Unrecognized/],
])("refuses %j", (more, path, message) => {
  const { error } = ldap.options.safeParse({
    url: "ldap://x",
    users: { base: "ou=people,dc=x" },
    groups: { base: "ou=groups,dc=x" },
    ...more,
  });
  const issues = error?.issues.flatMap((issue) => [
    issue,
    ...(issue.code === "invalid_union" ? issue.errors.flat() : []),
  ]);
  expect(issues?.map((issue) => issue.message).join("\n")).toMatch(message);
  expect(error?.issues.map((issue) => issue.path.join("."))).toContain(path);
  expect(JSON.stringify(error)).not.toContain("hunter2");
});

test("searches bases inside others first, and leaves them out of the others", () => {
  const base = ["dc=x", { dn: "ou=B, ou=a,dc=x", minEntries: 5 }, "ou=a,dc=x", "ou=aa,dc=x"];
  expect(placesOf(optionsWith({ users: { base } }).users)).toEqual([
    { dn: "ou=B, ou=a,dc=x", minEntries: 5, inner: [] },
    { dn: "ou=aa,dc=x", minEntries: 0, inner: [] },
    { dn: "ou=a,dc=x", minEntries: 0, inner: ["ou=b,ou=a,dc=x"] },
    { dn: "dc=x", minEntries: 0, inner: ["ou=b,ou=a,dc=x", "ou=a,dc=x", "ou=aa,dc=x"] },
  ]);
  // Where only one level is read, nothing is read twice.
  const { users } = optionsWith({ users: { base: ["dc=x", "ou=a,dc=x"], scope: "one" } });
  expect(placesOf(users).map(({ inner }) => inner)).toEqual([[], []]);
});

test("writes ids into filters", () => {
  expect(inFilter("a*(b)\\c\0ü", "text")).toBe(String.raw`a\2a\28b\29\5cc\00ü`);
  expect(inFilter("195f3990-b51a-4a1b-9e96-86c66cb18d11", "guid").replaceAll("\\", "")).toBe(
    "90395f191ab51b4a9e9686c66cb18d11",
  );
  expect(inFilter("S-1-5-18", "sid")).toBe(sidInFilter("S-1-5-18"));
  expect(inFilter(Buffer.from([0x2a, 0, 0xff]).toString("base64"), "bytes")).toBe(String.raw`\2a\00\ff`);
  expect([canBe("8a1c2d3e-1dd211b2-80b5c4a1-5f6e0000", "guid"), canBe("anything", "text")]).toEqual([false, true]);
});

test("writes a GUID as Microsoft does", () => {
  const bytes = Buffer.from("90395f191ab51b4a9e9686c66cb18d11", "hex");
  expect(guidOf(bytes)).toBe("195f3990-b51a-4a1b-9e96-86c66cb18d11");
  expect(guidOf(Buffer.alloc(16))).toBe("00000000-0000-0000-0000-000000000000");
  expect(guidOf(bytes.subarray(1))).toBeUndefined();
});

test("writes a security identifier as Microsoft does, and back", () => {
  const bytes = Buffer.from("01050000000000051500000079e2a5abdc6d7c1ff2a4cdf4e9030000", "hex");
  const sid = "S-1-5-21-2879775353-528248284-4107117810-1001";
  expect(sidOf(bytes)).toBe(sid);
  expect(sidInFilter(sid).replaceAll("\\", "")).toBe(bytes.toString("hex"));
  expect(sidOf(Buffer.from("010100000000000512000000", "hex"))).toBe("S-1-5-18");
  expect(sidOf(bytes.subarray(0, 20))).toBeUndefined();
  expect(sidOf(Buffer.alloc(0))).toBeUndefined();
});

test("knows bytes and secrets by their names", () => {
  expect(["objectguid", "objectsid", "jpegphoto", "userpassword", "cn"].map(formOf)).toEqual([
    "guid",
    "sid",
    "bytes",
    "secret",
    "text",
  ]);
});
