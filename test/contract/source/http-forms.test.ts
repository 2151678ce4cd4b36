import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import http from "#connectors/http/index.ts";
import type { ReadContext, SourceRecord } from "#connector.ts";
import { credentials, startHttpDirectory } from "../../support/http-directory.ts";
import type { Fault, HttpDirectory, HttpCompany } from "../../support/http-directory.ts";

/** As many as are several pages of everything. */
const company = (size = 230): HttpCompany => ({
  people: Array.from({ length: size }, (_, index) => ({
    id: `${index + 1}`,
    login: `user${index + 1}`,
    name: `User ${index + 1}`,
    mail: `user${index + 1}@example.com`,
    department: index % 2 === 0 ? "Sales" : "Research",
  })),
  teams: [
    { id: "top", name: "Top", members: [{ id: "1", kind: "user" }] },
    { id: "middle", name: "Middle", parent: "top", members: [{ id: "2", kind: "user" }] },
    {
      id: "low",
      name: "Low",
      parent: "middle",
      members: Array.from({ length: 150 }, (_, index) => ({ id: `${index + 1}`, kind: "user" as const })),
    },
  ],
});

async function start(size?: number): Promise<HttpDirectory> {
  const server = await startHttpDirectory(company(size));
  onTestFinished(() => server.close());
  return server;
}

interface Read {
  readonly records: readonly SourceRecord[];
  readonly warnings: readonly string[];
}

async function read(options: object, context: Partial<ReadContext> = {}): Promise<Read> {
  const warnings: string[] = [];
  const source = http.open(http.options.parse(options), { name: "hr", folder: "/" });
  const signal = new AbortController().signal;
  const batches = await Array.fromAsync(source.read({ signal, warn: (message) => warnings.push(message), ...context }));
  return { records: batches.flat(), warnings };
}

const usersOf = ({ records }: Read) => records.flatMap((record) => (record.kind === "user" ? [record] : []));

const forms = {
  workday: (url: string) => ({
    url: `${url}/ccx/service/customreport2/acme/ISU_Rollcall`,
    auth: { basic: credentials.basic },
    users: { url: "Workers?format=json", items: "Report_Entry", id: "Employee_ID" },
  }),
  bamboohr: (url: string) => ({
    url: `${url}/api/gateway.php/acme/v1`,
    auth: { basic: { username: credentials.key, password: "x" } },
    users: { url: "employees/directory", items: "employees", id: "id" },
  }),
  personio: (url: string) => ({
    url: `${url}/v1`,
    auth: { oauth: { tokenUrl: `${url}/v2/auth/token`, ...credentials.client, send: "body" } },
    users: {
      url: "company/employees",
      items: "data",
      id: "attributes.id.value",
      attributes: { mail: "attributes.email.value", department: "attributes.department.value.attributes.name" },
      next: { offset: "offset" },
      size: { parameter: "limit", count: 100 },
      proof: { total: "metadata.total_elements" },
    },
  }),
  hibob: (url: string) => ({
    url: `${url}/v1`,
    auth: { basic: credentials.basic },
    users: {
      url: "people/search",
      body: { fields: ["displayName", "email", "work.department"] },
      items: "employees",
      id: "id",
      attributes: { mail: "email", department: '"work.department"' },
    },
  }),
  hibobBulk: (url: string) => ({
    url: `${url}/v1`,
    auth: { basic: credentials.basic },
    users: {
      url: "bulk/people/employment",
      items: "results",
      id: "employeeId",
      next: { cursor: "response_metadata.next_cursor", parameter: "cursor", always: true },
      size: { parameter: "limit", count: 100 },
    },
  }),
  lines: (url: string) => ({
    url: `${url}/plain`,
    auth: { headers: { Authorization: `Bearer ${credentials.token}` } },
    users: {
      url: "people.ndjson",
      id: "id",
      next: { link: "header" },
      proof: { reversed: { order: "desc" } },
    },
  }),
  keycloak: (url: string) => ({
    url: `${url}/admin/realms/acme`,
    auth: { oauth: { tokenUrl: `${url}/realms/acme/protocol/openid-connect/token`, ...credentials.client } },
    users: {
      url: "users?briefRepresentation=false",
      id: "id",
      next: { offset: "first" },
      size: { parameter: "max", count: 100 },
      proof: { count: "users/count" },
      find: { url: "users/{id}" },
    },
    groups: {
      url: "groups?briefRepresentation=false",
      id: "id",
      memberOf: { path: "parentId" },
      next: { offset: "first" },
      size: { parameter: "max", count: 100 },
      members: {
        url: "groups/{id}/members",
        id: "id",
        kind: "user",
        next: { offset: "first" },
        size: { parameter: "max", count: 100 },
      },
      children: {
        url: "groups/{id}/children?briefRepresentation=false",
        next: { offset: "first" },
        size: { parameter: "max", count: 100 },
        proof: { expected: "subGroupCount" },
      },
    },
  }),
} as const;

describe("the form of", () => {
  test.each(Object.entries(forms))("%s is read whole", async (_, form) => {
    const { url } = await start();
    const found = await read(form(url));
    expect(new Set(usersOf(found).map(({ id }) => id)).size).toBe(230);
    expect(found.warnings).toEqual([]);
  });

  test("Personio: values in values, ids that are numbers", async () => {
    const { url } = await start(3);
    const [first] = usersOf(await read(forms.personio(url)));
    expect(first).toMatchObject({ id: "1", attributes: { mail: "user1@example.com", department: "Sales" } });
    expect(first?.origin).toBe(`${url}/v1/company/employees, id 1`);
  });

  test("Keycloak: groups below groups, and members up to an empty page", async () => {
    const { url, requests } = await start();
    const { records } = await read(forms.keycloak(url));
    const groups = records.flatMap((record) => (record.kind === "group" ? [record] : []));
    expect(groups.map(({ id, memberOf }) => [id, memberOf])).toEqual([
      ["top", []],
      ["middle", ["top"]],
      ["low", ["middle"]],
    ]);
    const memberships = records.filter((record) => record.kind === "membership");
    expect(memberships.filter(({ group }) => group === "low")).toHaveLength(150);
    expect(memberships).toHaveLength(152);
    expect(requests.filter((each) => each.includes("/groups/low/members?max=100&first=150"))).not.toEqual([]);
  });
});

/** The faults that a form can have, and what the read says: that it fails, or a warning. */
describe("never fewer people", () => {
  test.each<[form: keyof typeof forms, fault: Fault, told: RegExp]>([
    ["workday", "answers 503", /answered 503 \(tried 4 times\)/],
    ["workday", "answers an error with 200", /no list at Report_Entry \(items\); there is error/],
    ["workday", "answers 403", /answered 403/],
    ["workday", "ends an answer early", /ends here, before its end/],
    ["workday", "breaks off", /broke off or arrived damaged/],
    ["bamboohr", "answers 503", /answered 503 \(tried 4 times\)/],
    ["bamboohr", "answers a page of HTML", /the answer is not JSON|is not JSON, at its line 1; is the url right/],
    ["personio", "has no total", /.^|^$/],
    ["personio", "has another total on each page", /metadata\.total_elements was \d+ and is now \d+/],
    ["personio", "hides the last tenth", /metadata\.total_elements is 230, and there are 207/],
    ["personio", "answers 503", /offset=100 answered 503 \(tried 4 times\)/],
    [
      "personio",
      "loses somebody between pages",
      /metadata\.total_elements was 230 and is now 229: .*; reading it again/,
    ],
    ["personio", "hires between pages", /metadata\.total_elements was 230 and is now 231: .*; reading it again/],
    ["personio", "has an empty page in the midst", /metadata\.total_elements is 230, and there are 100/],
    ["lines", "answers 503", /people\.ndjson answered 503 \(tried 4 times\)/],
    ["lines", "hides the last tenth", /two reads had 207 records each, and not the same ones/],
    [
      "hibobBulk",
      "forgets the link",
      /the last page is full \(100\), so that nothing but the missing link says that it is the last; set minUsers/,
    ],
    ["hibobBulk", "has pages of 50 at most", /.^|^$/],
    ["keycloak", "has short pages", /a page holds only records that came before/],
    ["keycloak", "has an empty page in the midst", /the service counts 230, and there are 100/],
    ["keycloak", "hides the last tenth", /the service counts 230, and there are 207/],
    ["keycloak", "answers 403", /answered 403/],
    ["keycloak", "gives nothing but ids", /every value but the id is null/],
  ])("%s %s", async (form, fault, told) => {
    const { url, faults } = await start();
    faults.add(fault);
    const { said, found } = await outcome(() => read(forms[form](url)));
    if (found !== undefined && usersOf(found).length < 230) {
      expect(said, "fewer people, and nobody is told").not.toBe("");
    }
    if (told.source !== ".^|^$") expect(said).toMatch(told);
  });

  test("a list whose end is forgotten twice the same is what a minimum is for", async () => {
    const { url, faults } = await start();
    faults.add("forgets the link");
    // Both reads end after the second page: no client can know. The last good read does.
    const lastCounts = { users: 230 };
    const few = { ...forms.hibobBulk(url), minUsers: 220 };
    await expect(read(few, { lastCounts })).rejects.toThrow("200 users, expected at least 220 (minUsers)");
  });

  test("an attribute that nobody has, and that rules read, may be spelled wrong: that is told at the first read", async () => {
    const { url } = await start();
    const form = forms.personio(url);
    const wrong = { ...form, users: { ...form.users, attributes: { mail: "attributes.mail.value" } } };
    const required = { users: ["mail"], groups: [] };
    const told = "source hr: no user has entry.mail, which the rules read: check how it is spelled";
    expect((await read(wrong, { required })).warnings).toEqual([expect.stringContaining(told)]);
    expect((await read(form, { required })).warnings).toEqual([]);
    const optional = { ...wrong, users: { ...wrong.users, optionalAttributes: ["mail"] } };
    expect((await read(optional, { required })).warnings).toEqual([]);
  });

  test("a moment's trouble is no trouble", async () => {
    const { url, faults } = await start();
    faults.add("answers 503 once");
    const { records, warnings } = await read(forms.personio(url));
    expect(records).toHaveLength(230);
    expect(warnings).toEqual([expect.stringMatching(/answered 503; attempt 2 of 4 follows/)]);
  });
});

async function outcome(
  work: () => Promise<Read>,
): Promise<{ readonly said: string; readonly found: Read | undefined }> {
  try {
    const found = await work();
    return { said: found.warnings.join("\n"), found };
  } catch (error) {
    return { said: String(error), found: undefined };
  }
}

describe("options", () => {
  const base = forms.workday("https://wd.example.com");
  test.each<[what: string, options: object, message: RegExp]>([
    [
      "another host",
      { ...base, users: { ...base.users, url: "https://elsewhere.example.com/people" } },
      /leads to another host: list it under hosts/,
    ],
    ["a path that is none", { ...base, users: { ...base.users, id: "a..b" } }, /expected a path such as name\.first/],
    [
      "a list within a list",
      { ...base, users: { ...base.users, items: "a[0].b" } },
      /expected names with dots between them/,
    ],
    [
      "no proof at all",
      { ...base, users: { ...base.users, proof: "end" } },
      /end proves nothing by itself: set minUsers/,
    ],
    [
      "an unknown proof",
      { ...base, users: { ...base.users, proof: "trust" } },
      /expected twoEqualReads, end, \{total\}, \{count\} or \{reversed\}/,
    ],
    [
      "members without an id",
      { ...base, groups: { ...base.users, members: { url: "groups/members", id: "id" } } },
      /expected (?:a path with \{id\}|\{path\} or \{url, id\})/,
    ],
    [
      "a condition at no path",
      { ...base, users: { ...base.users, find: { url: "w/{id}", where: { "a..b": 1 } } } },
      /expected a path such as|Invalid key/,
    ],
    ["plain HTTP", forms.workday("http://wd.example.com"), /http:\/\/ would send tokens and passwords unencrypted/],
    [
      "a client without any secret",
      { ...base, auth: { oauth: { tokenUrl: "https://a.example.com", clientId: "a" } } },
      /expected one of clientSecret, key and federatedToken/,
    ],
  ])("refuse %s", (_, options, message) => {
    const result = http.options.safeParse(options);
    expect(result.success ? "" : z.prettifyError(result.error)).toMatch(message);
  });

  test("take another host that is listed", () => {
    const users = { ...base.users, url: "https://elsewhere.example.com/people" };
    expect(http.options.safeParse({ ...base, hosts: ["elsewhere.example.com"], users }).success).toBe(true);
  });
});

test("two records with one id in one answer are both delivered, so that both are quarantined", async () => {
  const server = await start(5);
  server.company.people = [...server.company.people, { id: "3", login: "again", name: "Again" }];
  expect(usersOf(await read(forms.bamboohr(server.url))).map(({ id }) => id)).toEqual(["1", "2", "3", "4", "5", "3"]);
});

test("an attribute that all have lost fails the read, and only what rules read is kept", async () => {
  const { url } = await start(12);
  const attributes = { users: ["displayName", "office"], groups: [] };
  const { records } = await read(forms.bamboohr(url), { attributes });
  expect(records[0]).toMatchObject({ attributes: { displayName: "User 1" } });
  await expect(
    read(forms.bamboohr(url), { attributes, lastCounts: { users: 12, "users with office": 12 } }),
  ).rejects.toThrow(/no record has entry\.office, and 12 had it at the last good read/);
});

test.each([{ keys: ["attributes"] }, { memberOf: { path: "attributes" } }, { attributes: { mail: "attributes" } }])(
  "a path to objects fails the read and names what is in them: %j",
  async (part) => {
    const options = forms.personio((await start(3)).url);
    await expect(read({ ...options, users: { ...options.users, ...part } })).rejects.toThrow(
      /employees, id 1: attributes has objects, not values; say which of their values: attributes\.id, attributes\./,
    );
  },
);

test("an attribute that a rule needs and that the options do not list fails the read", async () => {
  const options = forms.personio((await start(3)).url);
  const wanted = (...users: string[]) => ({ attributes: { users, groups: [] }, required: { users, groups: [] } });
  await expect(read(options, wanted("mail", "departmen"))).rejects.toThrow(
    'source hr: a rule reads entry.departmen, and users: { attributes } does not say where it is; did you mean "department"?',
  );
  expect((await read(options, wanted("mail", "department"))).records).toHaveLength(3);
});

test("a lookup tells who is there, in scope, and what it cannot tell fails", async () => {
  const server = await start(5);
  const options = forms.keycloak(server.url);
  const lookUp = async (users: object, id: string) => {
    const source = http.open(http.options.parse({ ...options, users: { ...options.users, ...users } }), {
      name: "hr",
      folder: "/",
    });
    const context = { signal: new AbortController().signal, warn: () => {} };
    const found =
      source.find === undefined ? undefined : await Array.fromAsync(source.find([{ kind: "user", id }], context));
    return found?.flat().map((entry) => entry.id);
  };
  // Groups cannot be looked up there.
  expect(await lookUp({}, "1")).toBeUndefined();
  const { groups, ...withoutGroups } = options;
  expect(groups).toBeDefined();
  const source = (where: object) => {
    const users = { ...options.users, find: { url: "users/{id}", ...where } };
    return http.open(http.options.parse({ ...withoutGroups, users }), { name: "hr", folder: "/" });
  };
  const found = async (where: object, id: string): Promise<readonly string[]> => {
    const context = { signal: new AbortController().signal, warn: () => {} };
    return (await Array.fromAsync(source(where).find?.([{ kind: "user", id }], context) ?? []))
      .flat()
      .map((entry) => entry.id);
  };
  expect(await found({}, "1")).toEqual(["1"]);
  expect(await found({}, "77")).toEqual([]);
  expect(await found({ where: { enabled: true } }, "1")).toEqual(["1"]);
  expect(await found({ where: { enabled: false } }, "1")).toEqual([]);
  await expect(found({ url: "users/2?for={id}" }, "1")).rejects.toThrow(/the answer is another user than 1/);
  await expect(found({ url: "none?for={id}", at: "x" }, "1")).resolves.toEqual([]);
  // What finds nobody would find nobody gone: the check tries it.
  const check = (where: object) => source(where).describe?.({ signal: new AbortController().signal, warn: () => {} });
  expect(await check({ where: { enabled: true } })).toContain("a user of it is found by its id (find)");
  for (const where of [{ url: "none?for={id}" }, { where: { enabled: "True" } }])
    await expect(check(where)).rejects.toThrow(
      "source hr: the user 1 is in the list and not found by its id, as if it were gone; check the url and the where of users: { find }",
    );
});

test("a refusal of the page after the last is the end, if a number proves it", async () => {
  const server = createServer(({ url = "" }, response) => {
    const { searchParams: at, pathname } = new URL(url, "http://localhost");
    const start = (Number(at.get("page")) - 1) * 10;
    const results = company(25).people.slice(start, start + 10);
    if (pathname === "/count") response.end("25");
    else if (results.length === 0) response.writeHead(404).end('{"detail":"Invalid page."}');
    else response.end(JSON.stringify({ count: 25, results }));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const users = { url: "people", items: "results", id: "id", next: { page: "page" } };
  for (const proof of [{ total: "count" }, { count: "count" }])
    expect(usersOf(await read({ url, users: { ...users, proof } }))).toHaveLength(25);
  await expect(read({ url, users })).rejects.toThrow(/page=4 answered 404, as some services do after the last page/);
  const wrong = { ...users, url: "people?page=9", next: { page: "page", start: 9 }, proof: { total: "count" } };
  await expect(read({ url, users: wrong })).rejects.toThrow(/page=9 answered 404 \(Invalid page\.\): not found/);
});

test("references of an answer in CSV that a spreadsheet has spoilt fail the read", async () => {
  const server = createServer((_, response) => void response.end("who,team\n1,#N/A\n")).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const users = { url: "people.csv", format: "csv", id: "who", memberOf: { path: "team" } };
  const groups = { url: "people.csv", format: "csv", id: "who", members: { path: "team" } };
  await expect(read({ url, users })).rejects.toThrow("a value of team is an error of Excel");
  await expect(read({ url, users: { ...users, memberOf: undefined }, groups })).rejects.toThrow(
    "a value of team is an error of Excel",
  );
});
