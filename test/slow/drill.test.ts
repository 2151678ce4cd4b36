import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { drilled, numbers, peopleOf } from "./drilling.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { startPagedScim } from "../support/scim.ts";

const company = companyOfEachTest();
const { command } = company;

test("where no guard stops an incident, the drill says what would be changed, and ends with code 2", async () => {
  await company.write("people.csv", peopleOf(numbers));
  await company.configure((yaml) =>
    yaml
      .replace("memberOf: { column: groups } }", "memberOf: { column: groups }, optionalColumns: [mail, groups] }")
      .concat(
        "    reusedNames: apply\n    limits: { deletes: 30%, updates: none, membershipsLost: none, shrink: none }\n",
      ),
  );
  await company.applied();
  const { code, found } = await drilled(
    company,
    "--only",
    "column-renamed,stale-export,swapped-ids,memberships-hidden",
  );
  expect(code).toBe(2);
  expect(Object.keys(found)).toHaveLength(4);
  expect(found).toMatchObject({
    "stale-export": {
      verdict: "passed",
      changed: 39,
      because: [],
      advice: "deletes: 39 users, at most 58 (30% of 196): a lower limits.deletes would hold it",
    },
    "swapped-ids": {
      verdict: "passed",
      because: ["reusedNames: apply: 2 names would go to other people, with all their access"],
    },
    "memberships-hidden": {
      verdict: "passed",
      advice: "set limits.membershipsLost: it does this to 293 of 293 memberships",
    },
  });
  const shown = await command("drill", "staff", "--only", "stale-export", "--markdown");
  expect(shown.code).toBe(2);
  expect(shown.stdout).toContain(
    "| the export is an old one | `the last 40 of 200 users of company are not in it yet` | 39 users deleted, 58 memberships removed | **would pass** |",
  );
  // It is what happens when it happens.
  await company.write("people.csv", peopleOf(numbers.slice(0, 160)));
  const real = JSON.parse((await command("apply", "--json")).stdout).runs[0];
  expect(real).toMatchObject({ outcome: "applied", plan: { counts: { users: { delete: 39 } } } });
});

test("approvals and grace periods stop what limits let through; a held sync is rehearsed as if it were not", async () => {
  await company.write("people.csv", peopleOf(numbers));
  const loose = "    limits: { deletes: 100%, shrink: none }\n";
  await company.configure((yaml) => `${yaml}    approval: required\n    deletions: { after: 30d }\n${loose}`);
  // Never applied: the incidents happen after today's plan.
  const { code, found } = await drilled(company, "--only", "stale-export,group-emptied");
  expect(code).toBe(0);
  expect(found["stale-export"]?.because).toEqual([
    expect.stringMatching(/^deletions\.after: 39 users gone from the sources, to be deleted from \d{4}-\d\d-\d\d on$/),
  ]);
  expect(found["group-emptied"]).toMatchObject({ verdict: "stopped" });
  const other = await command("drill", "nobody");
  expect(other).toMatchObject({ code: 1 });
  await company.write("people.csv", "nothing\n");
  const failed = await command("drill", "staff");
  expect(failed).toMatchObject({ code: 1, stdout: "" });
  expect(failed.stderr).toContain('people.csv:1: the header has no column "id"');
});

test("a SCIM server is read once for all incidents; an optional source keeps what came from it", async () => {
  const ids = numbers.slice(0, 60).map((n) => `s${n}`);
  const user = "urn:ietf:params:scim:schemas:core:2.0:User";
  const group = "urn:ietf:params:scim:schemas:core:2.0:Group";
  const server = await startPagedScim({
    users: ids.map((id) => ({
      schemas: [user],
      id,
      userName: id,
      title: "clerk",
      displayName: `Clerk ${id}`,
    })),
    groups: [{ schemas: [group], id: "clerks", displayName: "clerks", members: ids.map((value) => ({ value })) }],
  });
  try {
    await company.write("people.csv", peopleOf(numbers.slice(0, 20)));
    await company.configure((yaml) =>
      yaml
        .replace(/^syncs:/m, `  idp: { connector: scim, url: "${server.url}" }\nsyncs:`)
        .replace("from: [company]", "from: [{ source: idp, optional: true }, company]")
        .replace('entry.status == "active"', 'coalesce(entry.title, "") == "clerk" || entry.status == "active"')
        .replace("name: entry.login", "name: coalesce(entry.userName, entry.login)")
        .replace("displayName: entry.name", "displayName: coalesce(entry.displayName, entry.name)")
        .replace("name: entry.id", "name: coalesce(entry.displayName, entry.id)")
        .replace("mail: entry.mail", "mail: { value: entry.mail, absent: clear }")
        .concat("    limits: { emptied: 0 }\n"),
    );
    const applied = await command("apply");
    expect(applied.code, applied.stderr).toBe(0);
    const first = server.requests.length;
    expect((await command("plan", "--json")).code).toBe(0);
    const ofPlan = server.requests.slice(first);
    const { code, findings, found } = await drilled(company);
    expect(server.requests.slice(first + ofPlan.length)).toEqual(ofPlan);
    expect(findings.filter(({ verdict }) => verdict === "passed")).toEqual([]);
    expect(code).toBe(0);
    const kept = "optional: everything that came from an unreadable source stays unchanged";
    expect(found["breaks-off"]).toMatchObject({ verdict: "stopped", because: [kept] });
    expect(found["empty-source"]).toMatchObject({ verdict: "stopped", because: [kept] });
    expect(found["empty-page"]?.because.join()).toContain("was not read but is there");
    expect(found["wrong-tenant"]?.because.join()).toContain("deletes: 60 users");
  } finally {
    await server.close();
  }
});

test("what limits leave out of a plan waits, and the rest of it passes; names of groups can be mistyped", async () => {
  await company.write("people.csv", peopleOf(numbers));
  await company.configure((yaml) =>
    yaml
      .replace("include: entry.status", "onlyMembersOf: [engines]\n      include: entry.status")
      .concat("    limits: { action: apply-the-rest }\n"),
  );
  const first = await command("apply");
  expect(first.code, first.stderr).toBe(0);
  const { code, findings, found } = await drilled(company, "--only", "wrong-filter,everybody-renamed,stale-export");
  const wrong = findings.find(({ injected }) => injected === 'users.onlyMembersOf says "enginex" instead of "engines"');
  expect(wrong?.verdict).toBe("stopped");
  expect(wrong?.because.join("\n")).toContain("the scope names groups that no source has");
  expect(found["stale-export"]?.because).toContain("deletes: 19 users, at most 10 (10% of 96 is less than the floor)");
  expect(found["everybody-renamed"]).toMatchObject({
    verdict: "passed",
    because: ["deletes: 96 users, at most 10 (10% of 96 is less than the floor)"],
  });
  expect(code).toBe(2);
});

test("a drill that is interrupted says so, and leaves nothing behind", async () => {
  await company.write("people.csv", peopleOf(numbers));
  await company.applied();
  const work = join(company.folder, "data", "daemon", "work");
  const running = company.begin("drill");
  const rehearsing = async (): Promise<boolean> =>
    (await readdir(work, { recursive: true }).catch(() => [])).some((path) => path.includes("incident"));
  await expect.poll(rehearsing, { interval: 20, timeout: 30_000 }).toBe(true);
  running.process.kill("SIGINT");
  const { code, stdout, stderr } = await running.ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("staff: Cancelled.");
  expect(await readdir(work)).toEqual([]);
});
