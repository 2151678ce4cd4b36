import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "csv-parse/sync";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { configurationOf } from "../../support/scim-target/configuration.ts";
import { servers } from "../../support/scim-target/limits.ts";
import { ScimApplication } from "../../support/scim-target/server.ts";

/** An application with SCIM as a target of the commands: one story, told in order. */
let folder: string;
let application: ScimApplication;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-scim-target-"));
  const limits = servers["generic"];
  if (limits === undefined) throw new Error("no server");
  application = await ScimApplication.start(limits);
  await configure();
  await people("1,ada,Countess,maths", "2,grace,Admiral,navy");
});
afterAll(async () => {
  await application.close();
  await rm(folder, { recursive: true, force: true });
});

const people = (...lines: string[]): Promise<void> =>
  writeFile(join(folder, "people.csv"), ["number,login,title,team", ...lines, ""].join("\n"));

const configure = (...more: readonly string[]): Promise<void> => configureSync(more);

const configureSync = (more: readonly string[], settings?: string): Promise<void> => {
  const users = ["name: entry.login", "displayName: entry.login", "title: entry.title", "groups: entry.team", ...more];
  const target = { url: application.url, token: "${env:APP_TOKEN}" };
  return writeFile(
    join(folder, "rollcall.yaml"),
    configurationOf(target, { id: "number", users, floor: 100, more: settings }),
  );
};

const run = async (...args: string[]) => {
  const result = await rollcall(args, { cwd: folder, env: { APP_TOKEN: application.token } });
  expect(result.stdout + result.stderr).not.toContain(application.token);
  return { ...result, text: result.stdout + result.stderr };
};
const writes = (): string[] => application.writes().map(({ method, path }) => `${method} ${path.replace(/-\w+$/, "")}`);

test("check reaches it, and plan changes nothing", async () => {
  const checked = await run("check");
  expect(checked.text).toContain("a SCIM server with 0 users and 0 groups");
  expect(await run("plan")).toMatchObject({ code: 2, stdout: expect.stringContaining("Created users (2)") });
  expect(writes()).toEqual([]);
});

test("apply writes it, and the next plan is empty", async () => {
  const applied = await run("apply", "--yes");
  expect(applied.text).toContain("applied and verified");
  expect(writes().toSorted()).toEqual([
    "PATCH Groups/g3",
    "PATCH Groups/g4",
    "POST Groups",
    "POST Groups",
    "POST Users",
    "POST Users",
  ]);
  expect(await run("plan")).toMatchObject({ code: 0 });
});

test("what somebody changes there is drift, and what no rule gives is left alone", async () => {
  const [id, ada] = [...application.users].find(([, { userName }]) => userName === "ada") ?? ["", {}];
  application.users.set(id, { ...ada, title: "By hand", nickName: "Countess" });
  const { text } = await run("plan");
  expect(text).toContain("somebody changed the target: title: ada");
  await run("apply", "--yes");
  expect(application.users.get(id)).toMatchObject({ title: "Countess", nickName: "Countess" });
});

test("names are the same in other letters, in drift.ignore, keepManual and protect", async () => {
  const [id, ada] = [...application.users].find(([, { userName }]) => userName === "ada") ?? ["", {}];
  const [grace = ""] = [...application.users].find(([, { userName }]) => userName === "grace") ?? [];
  const [maths = ""] = [...application.groups].find(([, { displayName }]) => displayName === "maths") ?? [];
  application.users.set(id, { ...ada, title: "By hand" });
  const members = application.members.get(maths) ?? new Set();
  application.members.set(maths, new Set([...members, grace]));
  await configureSync(
    [],
    "drift: { ignore: [users.ADA.title] }\n    memberships: { keepManual: [Maths] }\n    protect: { users: [GRACE] }",
  );
  await people("1,ada,Countess,maths", "2,grace,Captain,navy");
  const { text } = await run("plan");
  expect(text).toContain("drift.ignore");
  expect(text).toContain("no change");
  await people("1,ada,Countess,maths", "2,grace,Captain,navy", "3,Ada,Other,maths");
  for (const command of ["check", "plan"])
    expect((await run(command)).text).toContain('the name "Ada" is also used by people.csv:2');
  application.users.set(id, ada);
  application.members.set(maths, members);
  await configure();
});

test("an object that it refuses does not stop the others, and is told", async () => {
  await people("1,ada,Countess,maths", "2,grace,Admiral,navy", "3,joan,Banburist,navy");
  application.fault = ({ method, body }) => {
    // The server finds something wrong with one of them.
    if (method === "POST" && (body as { userName?: string }).userName === "joan")
      application.limits = { ...application.limits, required: ["photos"] };
    return undefined;
  };
  const { code, text } = await run("apply", "--yes");
  application.fault = () => undefined;
  application.limits = { ...application.limits, required: [] };
  expect(code).not.toBe(0);
  expect(text).toMatch(/user joan: not created: target app: POST \S+ answered 400 \(invalidValue: no photos\)/);
  expect((await run("apply", "--yes")).text).toContain("applied and verified");
});

test("undo takes back what was written: who was created is suspended, and keeps the account", async () => {
  await people("1,ada,Queen,navy", "2,grace,Admiral,navy", "3,joan,Banburist,navy", "4,edith,Clarke,maths");
  await run("apply", "--yes");
  const last = async (): Promise<string> => {
    const { runs } = JSON.parse((await run("runs", "--json")).stdout) as { runs: { id: string }[] };
    return runs[0]?.id ?? "";
  };
  expect(await run("undo", await last())).toMatchObject({ code: 3 });
  expect((await run("approve", await last())).text).toContain("applied and verified");
  const held = new Map([...application.users.values()].map((user) => [user["userName"], user]));
  expect(held.get("ada")).toMatchObject({ title: "Countess", active: true });
  expect(held.get("edith")).toMatchObject({ title: "Clarke", active: false });
});

test("a rule for an attribute that it does not have is an error that names it", async () => {
  application.says.set("Schemas", {
    Resources: [
      {
        id: "urn:ietf:params:scim:schemas:core:2.0:User",
        attributes: ["userName", "displayName", "title", "active"].map((name) => ({ name })),
      },
    ],
  });
  expect(await run("plan")).toMatchObject({ code: 2 });
  await configure("nickName: entry.login");
  const { code, text } = await run("plan");
  expect(code).toBe(1);
  expect(text).toContain(
    "rules set attributes that the server does not take: users: nickName: the server does not have it",
  );
  await configure("nickname: entry.login");
  expect((await run("validate")).text).toMatch(/nickname.*nickName/s);
});

test("somebody with a new name is found by the name that the application still has", async () => {
  await configure();
  await people("1,lovelace,Queen,navy", "2,grace,Admiral,navy", "3,joan,Banburist,navy", "4,edith,Clarke,maths");
  const renamed = await run("plan", "--for", "ada");
  expect(renamed.stdout).toContain("userName: ada → lovelace");
  expect(renamed.stdout).not.toContain("edith");
  const digest = /--digest \w+/.exec(renamed.stdout)?.[0];
  expect((await run("plan", "--for", "lovelace")).stdout).toContain(digest);
  expect((await run("explain", "ada")).stdout).toContain("user lovelace: update, a record makes it");
});

test("export writes what it has to CSV files, also where the server does not take every attribute", async () => {
  const exported = await run("export", "--to", join(folder, "exported"), "--raw");
  expect(exported).toMatchObject({ code: 0 });
  const read = async (table: string): Promise<object[]> =>
    parse(await readFile(join(folder, "exported", `${table}.csv`)), { columns: true });
  expect(await read("users")).toContainEqual(
    expect.objectContaining({ name: "ada", display_name: "ada", title: "Countess", active: "true" }),
  );
  expect((await read("groups")).map((each) => (each as { name: string }).name)).toEqual(["maths", "navy"]);
  expect(await read("memberships")).toContainEqual({ member_kind: "user", member_name: "ada", group_name: "maths" });
});
