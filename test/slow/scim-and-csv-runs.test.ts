import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import csv from "#connectors/csv/index.ts";
import scim from "#connectors/scim/index.ts";
import { compileRules } from "#principals/compile.ts";
import type { RunResult } from "#sync/context.ts";
import { call, login } from "../support/rollcall/service.ts";
import { startPagedScim } from "../support/scim.ts";
import type { ScimResource, ScimServer } from "../support/scim.ts";
import { useStaff } from "../e2e/sync/staff.ts";

/** Runs with SCIM servers and CSV files that say success and hold less, against a real service: nobody is lost. */

const staff = useStaff();

/** Without limits: what a run would delete, it deletes. */
const limits = { sources: {}, floor: 1_000, action: "hold" } as const;

interface Listed {
  readonly name: string;
  readonly mail?: string;
  readonly groupNames: readonly string[];
}

async function listed(): Promise<readonly Listed[]> {
  const { url } = staff.service();
  const { text } = await call(`${url}/tspublic/v1/user/list`, { session: await login(url) });
  return JSON.parse(text) as readonly Listed[];
}

describe("a SCIM server", () => {
  let server: ScimServer;
  const names = Array.from({ length: 30 }, (_, index) => `user${10 + index}`);
  const person = (name: string): ScimResource => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    id: name,
    userName: name,
    emails: [{ value: `${name}@example.com` }],
  });
  const team = (id: string, members: readonly string[]): ScimResource => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
    id,
    displayName: id,
    members: members.map((value) => ({ value })),
  });

  beforeEach(async () => {
    server = await startPagedScim({ users: names.map(person), groups: [team("all", names), team("few", ["user11"])] });
    return () => server.close();
  });

  const rules = compileRules({
    users: { name: "entry.userName", displayName: "entry.userName", mail: "entry.mail" },
    groups: { name: "entry.displayName", displayName: "entry.displayName" },
  });

  function runIt(more: object = {}, warnings: string[] = []): Promise<RunResult> {
    const options = scim.options.parse({ url: server.url, ...more });
    const source = scim.open(options, { name: "idp", folder: "/" });
    // As the configuration has it: the digest of the options.
    const sources = [{ name: "idp", source, digest: JSON.stringify(options) }];
    const sync = staff.syncOf({}, { rules, sources, limits, protection: { ...owned, makesGroups: true } });
    return staff.runIt(sync, true, { warn: (message) => void warnings.push(message) });
  }
  const owned = { manage: "owned", users: ["admin"], groups: ["Administrator", "All"] } as const;

  test.each([
    [
      "answers for a group with an error",
      { groups: { members: "each" } },
      () => fake("/Groups/all", { schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"], status: "500" }),
      /the status says success, and the answer is an error/,
    ],
    [
      "counts the page",
      { paging: { count: 10 } },
      () =>
        server.intercept((request, response) => {
          const start = Number(/Users\?.*startIndex=(\d+)/.exec(request.url ?? "")?.[1]);
          if (Number.isNaN(start)) return false;
          const Resources = server.directory.users.slice(start - 1, start + 9);
          response.end(JSON.stringify({ totalResults: Resources.length, Resources }));
          return true;
        }),
      /the server counts only part of it/,
    ],
    [
      "has no groups any more",
      {},
      () => void (server.directory.groups = []),
      /0 groups, and 2 at the last good read; if that is right, set minGroups: 0/,
    ],
    [
      "has no members any more",
      {},
      () => void (server.directory.groups = [team("all", []), team("few", [])]),
      /0 memberships, and 31 at the last good read/,
    ],
    [
      "shows fewer than half",
      {},
      () => void (server.directory.users = server.directory.users.slice(0, 14)),
      /14 users, and 30 at the last good read/,
    ],
    [
      "shows no addresses any more",
      {},
      () => void (server.directory.users = server.directory.users.map((each) => ({ ...each, emails: null }))),
      /no record has entry\.mail, and 30 had it at the last good read/,
    ],
  ])("that %s fails the run", async (_, more, change, message) => {
    expect(await runIt(more)).toMatchObject({ outcome: "applied" });
    const before = await listed();
    expect(before.find(({ name }) => name === "user11")?.groupNames).toEqual(expect.arrayContaining(["all", "few"]));
    change();
    for (let attempt = 0; attempt < 2; attempt++) await expect(runIt(more)).rejects.toThrow(message);
    expect(await listed()).toEqual(before);
  });

  function fake(path: string, body: object): void {
    server.intercept((request, response) => {
      if (request.url?.includes(path) !== true) return false;
      response.end(JSON.stringify(body));
      return true;
    });
  }

  test("that leaves somebody out once is read again, since he is there by id", async () => {
    await runIt();
    let reads = 0;
    server.intercept((request, response) => {
      if (request.url?.includes("/Users?") !== true) return false;
      // The list without user12, and its end.
      if (++reads > 2) return false;
      const Resources = server.directory.users.filter(({ id }) => id !== "user12");
      response.end(JSON.stringify({ totalResults: Resources.length, Resources }));
      return true;
    });
    const warnings: string[] = [];
    expect(await runIt({}, warnings)).toMatchObject({ outcome: "no change" });
    expect(warnings.join("\n")).toMatch(/the user "user12" was not read but is there \(\S+\/Users\/user12\)/);
    expect(await staff.users()).toContain("user12");
    // Who is really gone leaves.
    server.directory.users = server.directory.users.filter(({ id }) => id !== "user12");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(await staff.users()).not.toContain("user12");
  });
});

describe("a CSV file", () => {
  const rows = Array.from({ length: 12 }, (_, index) => `user${10 + index},user${10 + index}@example.com`);
  const write = (header: string) => writeFile(join(staff.folder(), "people.csv"), [header, ...rows, ""].join("\n"));

  function runIt(mail: string): Promise<RunResult> {
    const options = csv.options.parse({ users: { file: "people.csv", id: "login" } });
    const source = csv.open(options, { name: "hr", folder: staff.folder() });
    const rules = compileRules({ users: { name: "entry.login", displayName: "entry.login", mail } });
    const sync = staff.syncOf({}, { rules, sources: [{ name: "hr", source, digest: "same" }], limits });
    return staff.runIt(sync);
  }

  test.each(["entry.mail", "coalesce(entry.mail, entry.login)"])(
    "whose column was renamed fails the run, and clears nothing (%s)",
    async (mail) => {
      await write("login,mail");
      expect(await runIt(mail)).toMatchObject({ outcome: "applied" });
      const before = await listed();
      expect(before.find(({ name }) => name === "user10")?.mail).toBe("user10@example.com");
      await write("login,e_mail");
      for (let attempt = 0; attempt < 2; attempt++) {
        await expect(runIt(mail)).rejects.toThrow(
          /^people\.csv:1: no column gives entry\.mail, .*did you mean "e_mail"\?/,
        );
      }
      expect(await listed()).toEqual(before);
    },
  );
});
