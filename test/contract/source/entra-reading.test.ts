import { writeFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateKeyPair, SignJWT } from "jose";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Entry, ReadContext, SourceRecord } from "#connector.ts";
import entra from "#connectors/entra/index.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { startEntra } from "../../support/entra/directory.ts";
import type { EntraDirectory, EntraOptions } from "../../support/entra/directory.ts";
import { app, idOf, largeTenant } from "../../support/entra/tenant.ts";
import type { GraphObject, Member, Tenant } from "../../support/entra/tenant.ts";
import { optionsOf } from "./entra-medium.ts";

const [ada, grace, guest, left] = [0, 1, 2, 3].map((place) => idOf("user", place)) as [string, string, string, string];
const [outer, inner, hidden, dynamic] = [0, 1, 2, 3].map((place) => idOf("group", place)) as [
  string,
  string,
  string,
  string,
];

const user = (id: string, name: string, more: object = {}): GraphObject => ({
  id,
  userPrincipalName: `${name}@contoso.example`,
  displayName: name,
  mail: `${name}@contoso.example`,
  accountEnabled: true,
  userType: "Member",
  ...more,
});

/** A small tenant: people inside, a guest, one who left; groups in each other, one whose members are hidden. */
function tenant(): Tenant {
  const members: Readonly<Record<string, readonly Member[]>> = {
    [outer]: [
      { type: "user", id: ada },
      { type: "group", id: inner },
      { type: "device", id: idOf("other", 1) },
      { type: "servicePrincipal", id: idOf("other", 2) },
    ],
    [inner]: [
      { type: "user", id: grace },
      { type: "user", id: guest },
      { type: "group", id: outer },
    ],
    [hidden]: [{ type: "user", id: ada }],
    [dynamic]: [{ type: "user", id: left }],
  };
  return {
    users: [
      user(ada, "ada", {
        department: "Research",
        businessPhones: ["+44 1", "+44 2"],
        manager: grace,
        onPremisesExtensionAttributes: { extensionAttribute1: "E1", extensionAttribute2: null },
        employeeOrgData: { division: "Engines", costCenter: "" },
        assignedLicenses: [
          { skuId: "s1", disabledPlans: [] },
          { skuId: "s2", disabledPlans: ["p1"] },
        ],
        extension_0123456789abcdef0123456789abcdef_badge: 7,
      }),
      user(grace, "grace"),
      user(guest, "guest", { userType: "Guest", mail: null, externalUserState: "Accepted" }),
      user(left, "left", { accountEnabled: false }),
    ],
    groups: [
      { id: outer, displayName: "Outer", groupTypes: [], visibility: null },
      { id: inner, displayName: "Inner", groupTypes: [], onPremisesSyncEnabled: true },
      { id: hidden, displayName: "Hidden", groupTypes: ["Unified"], visibility: "HiddenMembership" },
      { id: dynamic, displayName: "Dynamic", groupTypes: ["DynamicMembership"], visibility: "Public" },
    ],
    members: (id) => members[id] ?? [],
  };
}

async function started(content: Tenant = tenant(), options: EntraOptions = {}): Promise<EntraDirectory> {
  const directory = await startEntra(content, options);
  onTestFinished(() => directory.close());
  return directory;
}

interface Reading extends Partial<Omit<ReadContext, "warn">> {
  readonly warnings?: string[];
}

const contextOf = ({ warnings, signal = new AbortController().signal, ...rest }: Reading = {}): ReadContext => ({
  ...rest,
  signal,
  warn: (message) => void warnings?.push(message),
});

const open = (directory: EntraDirectory, options: object = {}, folder = "/") =>
  entra.open(entra.options.parse({ ...optionsOf(directory), ...options }), { name: "tenant", folder });

async function records(directory: EntraDirectory, options: object = {}, reading: Reading = {}) {
  return (await Array.fromAsync(open(directory, options).read(contextOf(reading)))).flat();
}

function entries(all: readonly SourceRecord[]): readonly Entry[] {
  return all.filter((record) => record.kind !== "membership");
}

const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "no failure",
    (error: unknown) => (error as Error).message,
  );

/** `Outer > ada`, of entries and of memberships alike. */
function memberships(all: readonly SourceRecord[]): readonly string[] {
  const names = new Map(entries(all).map(({ id, attributes }) => [id, String(attributes["displayName"])]));
  const line = (group: string, member: string): string => `${names.get(group)} > ${names.get(member) ?? member}`;
  return all
    .flatMap((record) => {
      if (record.kind === "membership") return [line(record.group, record.member.key)];
      return record.members.map((member) => line(record.id, member.key));
    })
    .sort();
}

describe("the app's identity", () => {
  test("may be a certificate", async () => {
    const { key, cert } = await makeCertificate({ dns: ["rollcall"] }, { keyType: "rsa" });
    const folder = await folderWith({ "app.pem": cert, "app.key": key });
    const directory = await started(undefined, { certificate: cert });
    const options = { clientSecret: undefined, certificate: { file: "app.pem", key: "app.key" } };
    expect(await Array.fromAsync(open(directory, options, folder).read(contextOf()))).not.toEqual([]);
    // Another key: it is refused before anything is sent.
    await writeFile(join(folder, "app.key"), (await makeCertificate({}, { keyType: "rsa" })).key);
    expect(await failure(Array.fromAsync(open(directory, options, folder).read(contextOf())))).toBe(
      "app.key: the key does not belong to the certificate",
    );
    expect(directory.tokens()).toBe(1);
  });

  test("may be another issuer's token, which is read anew for each of Entra's", async () => {
    const { publicKey, privateKey } = await generateKeyPair("RS256");
    const federated = { issuer: "https://k8s.example", subject: "rollcall", key: publicKey };
    const directory = await started(undefined, { federated });
    const token = (subject: string) =>
      new SignJWT()
        .setProtectedHeader({ alg: "RS256" })
        .setIssuer("https://k8s.example")
        .setSubject(subject)
        .setAudience("api://AzureADTokenExchange")
        .setExpirationTime("5m")
        .sign(privateKey);
    const folder = await folderWith({ token: `${await token("rollcall")}\n` });
    const source = open(directory, { clientSecret: undefined, federatedToken: { file: "token" } }, folder);
    expect(await Array.fromAsync(source.read(contextOf()))).not.toEqual([]);
    directory.revoke();
    await writeFile(join(folder, "token"), await token("other"));
    expect(await failure(Array.fromAsync(source.read(contextOf())))).toMatch(
      /token answered 401 \(invalid_client: AADSTS700213: .*\): check federatedToken: issuer, subject and audience/,
    );
  });

  test.each([
    [{ clientSecret: "wrong" }, /AADSTS7000215.*\): check clientSecret: it is the secret's value, not its id$/],
    [{ clientId: "nobody" }, /AADSTS700016.*\): check clientId and tenant/],
    [{ tenant: "nowhere.example" }, /AADSTS90002.*\): check tenant: there is none of this name/],
  ])("is said to be wrong: %o", async (options, message) => {
    const text = await failure(records(await started(), options));
    expect(text).toMatch(message);
    expect(text).not.toContain(app.clientSecret);
  });

  test("is proven anew when its token ends during a read, and once for all that wait", async () => {
    const directory = await started(largeTenant(3_000, 20));
    let batches = 0;
    for await (const batch of open(directory).read(contextOf())) {
      expect(batch.length).toBeGreaterThan(0);
      if (++batches === 2) directory.revoke();
    }
    expect(directory.tokens()).toBe(2);
  });
});

async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-entra-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return folder;
}

describe("attributes", () => {
  const usersRequest = ({ requests }: EntraDirectory) => requests.find((path) => path.startsWith("/v1.0/users?"));

  test("are flat", async () => {
    const all = entries(await records(await started()));
    expect(all.find(({ id }) => id === ada)?.attributes).toMatchObject({
      id: ada,
      accountEnabled: true,
      businessPhones: ["+44 1", "+44 2"],
      "onPremisesExtensionAttributes.extensionAttribute1": "E1",
      extensionAttribute1: "E1",
      "employeeOrgData.division": "Engines",
      division: "Engines",
      "assignedLicenses.skuId": ["s1", "s2"],
    });
    expect(all.find(({ id }) => id === guest)?.attributes).not.toHaveProperty("mail");
  });

  test("are requested as far as rules read them", async () => {
    const directory = await started();
    const attributes = {
      users: [
        "mail",
        "manager.displayName",
        "extensionAttribute1",
        "extension_0123456789abcdef0123456789abcdef_badge",
        "sAMAccountName",
      ],
      groups: ["description"],
    };
    const all = entries(await records(directory, {}, { attributes }));
    expect(usersRequest(directory)).toBe(
      "/v1.0/users?$select=id,userPrincipalName,displayName,accountEnabled,userType,mail,onPremisesExtensionAttributes,extension_0123456789abcdef0123456789abcdef_badge&$expand=manager($select=id,displayName,userPrincipalName,mail)&$top=999",
    );
    expect(directory.requests).toContain("/v1.0/groups?$select=id,displayName,visibility,description&$top=999");
    expect(all.find(({ id }) => id === ada)?.attributes).toMatchObject({
      manager: grace,
      "manager.displayName": "grace",
      extension_0123456789abcdef0123456789abcdef_badge: 7,
    });
  });

  test("that are needed and do not exist are an error; the options may name others", async () => {
    const directory = await started();
    const wanted = { users: ["departement"], groups: [] };
    const reading = { attributes: wanted, required: wanted };
    expect(await failure(records(directory, {}, reading))).toBe(
      'source tenant: a rule reads entry.departement, which users of Entra ID do not have; did you mean "department"?; a property that is new may be listed under users: { attributes }',
    );
    const sized = { users: ["mail", "shoeSize"], groups: [] };
    await records(directory, { users: { attributes: ["shoeSize"] } }, { attributes: sized, required: sized });
    expect(usersRequest(directory)).toContain("userType,mail,shoeSize&");
    const unknown = await failure(records(directory, { users: { attributes: ["nonsense"] } }));
    expect(unknown).toMatch(/answered 400 \(BadRequest: .*named 'nonsense'.*\): check filter and attributes/);
  });

  test("that need smaller pages get them", async () => {
    const directory = await started(largeTenant(300, 2));
    await records(directory, {}, { attributes: { users: ["signInActivity.lastSignInDateTime"], groups: [] } });
    expect(usersRequest(directory)).toContain("&$top=120");
  });

  test("that all lose at once fail the read", async () => {
    const directory = await started(largeTenant(20, 2));
    const attributes = { users: ["mail"], groups: [] };
    const lastCounts: Record<string, number> = {};
    await records(directory, {}, { attributes, count: (name, amount) => void (lastCounts[name] = amount) });
    directory.faults.withheld = "mail";
    expect(await failure(records(directory, {}, { attributes, lastCounts }))).toBe(
      "source tenant: no record has entry.mail, and 20 had it at the last good read; if no record has it, list it under optionalAttributes",
    );
  });
});

describe("what is read", () => {
  test("is everybody, with direct members; devices and applications are nobody", async () => {
    const all = await records(await started());
    expect(
      entries(all)
        .map(({ id }) => id)
        .sort(),
    ).toEqual([ada, grace, guest, left, outer, inner, hidden, dynamic].sort());
    expect(memberships(all)).toEqual(
      [
        "Dynamic > left",
        "Hidden > ada",
        "Inner > Outer",
        "Inner > grace",
        "Inner > guest",
        "Outer > Inner",
        "Outer > ada",
      ].sort(),
    );
  });

  test("may be without guests, also in groups", async () => {
    const warnings: string[] = [];
    const all = await records(await started(), { users: { guests: "exclude" } }, { warnings });
    expect(entries(all).map(({ id }) => id)).not.toContain(guest);
    expect(memberships(all)).toContain("Inner > grace");
    expect(memberships(all).join()).not.toMatch(/guest/);
    expect(warnings).toEqual([]);
  });

  test("is what the filter lets pass, counted alike", async () => {
    const directory = await started();
    const all = await records(directory, {
      users: { filter: "userType ne 'Guest' and accountEnabled eq true" },
      groups: false,
    });
    expect(entries(all).map(({ id }) => id)).toEqual([ada, grace]);
    expect(directory.requests).toContain("/v1.0/users/$count?$filter=userType ne 'Guest' and accountEnabled eq true");
    expect(await failure(records(directory, { users: { filter: "no such" } }))).toMatch(
      /answered 400 \(Request_UnsupportedQuery: .*\): check filter and attributes of users and groups$/,
    );
  });

  test("has the members of groups that are left out in the groups around them", async () => {
    const all = await records(await started(), { groups: { filter: "displayName eq 'Outer'" } });
    expect(memberships(all)).toEqual(["Outer > Outer", "Outer > ada", "Outer > grace", "Outer > guest"]);
    // Both are read: they stay in each other.
    const both = await records(await started(), { groups: { only: [outer, inner.toUpperCase()] } });
    expect(memberships(both)).toEqual(
      ["Inner > Outer", "Inner > grace", "Inner > guest", "Outer > Inner", "Outer > ada"].sort(),
    );
  });

  test("fails when a group that is named is not there", async () => {
    const nobody = idOf("group", 77);
    expect(await failure(records(await started(), { groups: { only: [nobody] } }))).toBe(
      `source tenant: there is no group ${nobody}; if it was deleted on purpose, take it out of groups: { only }`,
    );
  });

  test("fails when members are hidden, unless these groups are left out", async () => {
    const directory = await started();
    directory.permissions = ["User.Read.All", "GroupMember.Read.All"];
    expect(await failure(records(directory))).toBe(
      `source tenant: group ${hidden} (Hidden): its membership is hidden, and Graph shows nobody in it; grant the app the application permission Member.Read.Hidden, or set groups: { hiddenMembership: exclude }`,
    );
    const all = await records(directory, { groups: { hiddenMembership: "exclude" } });
    expect(entries(all).map(({ id }) => id)).not.toContain(hidden);
    expect(memberships(all)).toContain("Outer > Inner");
  });
});

describe("what Graph does at times, and no read fails of", () => {
  const complete = async (directory: EntraDirectory, warnings: string[] = []): Promise<readonly string[]> => {
    const all = await records(directory, {}, { warnings });
    expect(entries(all).filter(({ kind }) => kind === "user")).toHaveLength(directory.tenant.users.length);
    return warnings;
  };

  test("empty pages, small pages, pages that overlap", async () => {
    for (const faults of [{ emptyPages: /./ }, { largestPage: 7 }, { largestPage: 10, repeats: /./ }]) {
      const directory = await started(largeTenant(40, 2));
      Object.assign(directory.faults, faults);
      const all = await records(directory);
      expect(all.filter(({ kind }) => kind === "user")).toHaveLength(40);
      expect(memberships(all)).toHaveLength(41);
    }
  });

  test("a link that is missing once, and one that has ended", async () => {
    const directory = await started(largeTenant(2_500, 1));
    const warnings: string[] = [];
    let isFirst = true;
    directory.faults.expiredLinks = 1;
    directory.intercept((request) => {
      directory.faults.lostLink = isFirst && request.url?.startsWith("/v1.0/users?") === true ? /users/ : undefined;
      if (directory.faults.lostLink !== undefined) isFirst = false;
      return false;
    });
    await complete(directory, warnings);
    expect(warnings.join("\n")).toMatch(/a full page had no link to the next one, and has one now/);
    expect(warnings.join("\n")).toMatch(
      /users\?\S*: Graph no longer knows the link to the next page; reading it again \(2 of 3\)/,
    );
  });

  test("throttling, with the seconds or the time to wait for; and a warning by its percentage", async () => {
    for (const retryAfter of ["0", new Date(Date.now() + 1_000).toUTCString()]) {
      const directory = await started();
      directory.faults.refuse = { of: /members/, status: 429, times: 2, retryAfter };
      expect((await complete(directory)).join("\n")).toMatch(/answered 429 .*attempt 2 of 4 follows in/);
    }
    const directory = await started();
    directory.faults.percentage = "0.81";
    await complete(directory);
  });

  test("somebody who joins and somebody who leaves meanwhile", async () => {
    const directory = await started(largeTenant(2_500, 1));
    const content = { more: largeTenant(2_501, 1), less: largeTenant(2_499, 1) };
    for (const next of [content.more, content.less]) {
      let isDone = false;
      directory.intercept((request) => {
        if (!isDone && request.url?.includes("skiptoken") === true) {
          directory.tenant.users = next.users;
          isDone = true;
        }
        return false;
      });
      expect((await complete(directory)).join()).toMatch(
        /the service's count was [\d,]+ and is now [\d,]+: it changed/,
      );
    }
  });

  test("counts of members with the applications that are not listed", async () => {
    const directory = await started();
    expect(await complete(directory)).toEqual([]);
    expect(directory.requests).toContain(`/v1.0/groups/${outer}/members/microsoft.graph.user/$count`);
    // That explains what is too much, and nothing else.
    directory.faults.less = /members/;
    expect(await failure(records(directory))).toMatch(/Graph counts 3 members, and there are 2 \(of groups 1, and 0\)/);
  });

  test("no counts at all, in tenants for customers: everything is read twice", async () => {
    const directory = await started();
    directory.faults.noCounts = true;
    await complete(directory);
    expect(directory.requests.filter((path) => path.startsWith("/v1.0/users?"))).toHaveLength(2);
    directory.faults.largestPage = 2;
    let reads = 0;
    directory.intercept((request) => {
      // Every other read of the list ends early.
      const isStart = request.url?.startsWith("/v1.0/users?") === true && !request.url.includes("skiptoken");
      directory.faults.lostLink = isStart && reads++ % 2 === 1 ? /users/ : undefined;
      return false;
    });
    expect(await failure(records(directory))).toMatch(/two reads differ: 4 records, then 2 \(read 3 times\)/);
  });
});

test("groups that come without the groups in them are noticed beside an earlier read", async () => {
  const content = largeTenant(60, 20);
  const groups = Array.from({ length: 20 }, (_, place) => ({
    ...content.groups.at(place)!,
    onPremisesSyncEnabled: true,
  }));
  const members = (id: string): readonly Member[] => {
    const place = groups.findIndex((group) => group.id === id);
    const people = [0, 1, 2].map((index): Member => ({ type: "user", id: idOf("user", place * 3 + index) }));
    return place === 0 ? people : [...people, { type: "group", id: idOf("group", place - 1) }];
  };
  const directory = await started({ users: content.users, groups, members });
  const lastCounts: Record<string, number> = {};
  await records(directory, {}, { count: (name, amount) => void (lastCounts[name] = amount) });
  expect(lastCounts).toEqual({ users: 60, groups: 20, memberships: 79, "groups in groups": 19 });
  directory.faults.noNesting = true;
  expect(await failure(records(directory, {}, { lastCounts }))).toBe(
    "source tenant: no group is in a group, and 19 were at the last good read; if that is right, set minMemberships: 60",
  );
  expect(await records(directory, { minMemberships: 60 }, { lastCounts })).toHaveLength(80);
});

describe("changes", () => {
  test("are followed from look to look", async () => {
    const directory = await started();
    const source = open(directory);
    const look = () => source.version!(contextOf());
    const first = await look();
    expect(await look()).toBe(first);
    directory.changed("groups", outer);
    const second = await look();
    expect(second).not.toBe(first);
    expect(await look()).toBe(second);
    directory.changed("users", left, "deleted");
    expect(await look()).not.toBe(second);
    // A tenant is opened anew for each run.
    const third = await look();
    expect(await open(directory).version!(contextOf())).toBe(third);
    expect(await open(directory, { concurrency: 2 }).version!(contextOf())).not.toBe(third);
  });

  test("of what no read has asked for are not followed, and so count as changes", async () => {
    const directory = await started();
    const source = open(directory);
    const first = await source.version!(contextOf());
    const attributes = { users: ["extension_0123456789abcdef0123456789abcdef_badge"], groups: [] };
    await Array.fromAsync(source.read(contextOf({ attributes })));
    const second = await source.version!(contextOf());
    expect(second).not.toBe(first);
    expect(directory.requests.findLast((path) => path.startsWith("/v1.0/users/delta"))).toContain("_badge");
    await Array.fromAsync(source.read(contextOf({ attributes })));
    expect(await source.version!(contextOf())).toBe(second);
  });

  test("are everything after a token has ended, and unknown without permission", async () => {
    const directory = await started();
    const source = open(directory);
    const first = await source.version!(contextOf());
    directory.faults.expiredDeltas = true;
    const second = await source.version!(contextOf());
    expect([undefined, first]).not.toContain(second);
    directory.permissions = [];
    expect(await source.version!(contextOf())).toBeUndefined();
  });

  test("of managers are not followed", async () => {
    const directory = await started();
    const attributes = { users: ["manager"], groups: [] };
    await Array.fromAsync(open(directory).read(contextOf({ attributes })));
    expect(await open(directory).version!(contextOf())).toBeUndefined();
  });
});

describe("a check", () => {
  test("names every permission that is missing", async () => {
    const directory = await started();
    directory.permissions = ["Mail.Read"];
    expect(await failure(open(directory).describe!(contextOf()))).toBe(
      "source tenant: the app may not read everything: it lacks User.Read.All and GroupMember.Read.All (it has Mail.Read); add them as application permissions of Microsoft Graph, with an administrator's consent",
    );
    directory.permissions = ["User.Read.All", "GroupMember.Read.All"];
    expect((await open(directory).describe!(contextOf())).at(-1)).toBe(
      "without Member.Read.Hidden: a group whose membership is hidden fails the read",
    );
  });
});

test("what init asks makes options", () => {
  for (const credential of ["secret", "certificate", "federated"]) {
    const options: Record<string, unknown> = {};
    for (const { option, isStep, when, fallback } of entra.questions ?? []) {
      if (isStep === true || when?.({ credential }) === false) continue;
      const [name = "", part] = option.split(".");
      if (part === undefined) options[name] = fallback ?? "answer";
      else options[name] = { ...(options[name] as object | undefined), [part]: "answer" };
    }
    expect(entra.options.parse(options)).toMatchObject({ cloud: "global", tenant: "answer" });
  }
});

test("a lookup finds who is there and in scope", async () => {
  const directory = await started();
  const ids = async (options: object) => {
    const wanted = [
      ...[ada, guest, left, idOf("user", 99)].map((id) => ({ kind: "user", id }) as const),
      ...[outer, hidden, idOf("group", 99)].map((id) => ({ kind: "group", id }) as const),
    ];
    return (await Array.fromAsync(open(directory, options).find!(wanted, contextOf()))).flat().map(({ id }) => id);
  };
  expect(await ids({})).toEqual([ada, guest, left, outer, hidden]);
  expect(
    await ids({
      users: { guests: "exclude", filter: "accountEnabled eq true" },
      groups: { hiddenMembership: "exclude" },
    }),
  ).toEqual([ada, outer]);
  expect(await ids({ groups: { only: [hidden] } })).toEqual([ada, guest, left, hidden]);
  directory.faults.refuse = { of: /groups/, status: 403, times: 9 };
  expect(await failure(ids({}))).toMatch(/answered 403/);
});
