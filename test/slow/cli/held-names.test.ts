import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useConnection } from "../../support/duckdb.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command, run } = company;
const connection = useConnection();

const users = Array.from({ length: 12 }, (_, n) => n);
const peopleOf = (line: (n: number) => string): string =>
  ["id,login,name,mail,status,groups", ...users.map(line), ""].join("\n");
const before = peopleOf((n) => `A${n},u${n},User ${n},u${n}@example.com,active,${n % 2 === 0 ? "staff" : "engines"}`);
/** Everybody has a new id, u5 another mail address, and u7 another group. */
const rebuilt = before
  .replaceAll(/^A/gm, "B")
  .replace("u5@example.com", "new5@example.com")
  .replace("u7@example.com,active,engines", "u7@example.com,active,staff");

test("a directory that was rebuilt is held, and its people are adopted by name, once, by an approval", async () => {
  await company.write("people.csv", before);
  expect((await command("apply")).code).toBe(0);
  await company.write("people.csv", rebuilt);
  const planned = await command("plan");
  expect(planned.code).toBe(3);
  expect(planned.stderr).toMatch(/heldNames: 12 users, at most 6 \(half of 12; the floor of 10 would be more\)/);
  expect(planned.stderr).toMatch(/the ids of the source are new: 12 names .*adopts these principals by name, once/);
  const held = await command("apply");
  const [, id = ""] = /approve --config \S+ (\S+) --override heldNames`$/m.exec(held.stderr) ?? [];
  expect(held.code).toBe(3);
  expect((await command("approve", id)).stderr).toContain("is held by limits");
  // It waits, and goes on waiting: nobody is adopted by a run of the schedule.
  expect((await command("apply")).code).toBe(3);

  const approved = await command("approve", id, "--override", "heldNames");
  expect(approved).toMatchObject({ code: 0, stdout: expect.stringContaining("12 principals adopted by name") });
  expect(approved.stdout).toContain("user u0: company A0 before, B0 now");
  expect(approved.stdout).not.toMatch(/stay unchanged|--override heldNames/);
  const { plan, departures } = await run("plan");
  expect(departures.reused.count).toBe(0);
  expect(plan.changes).toMatchObject([
    { name: "u5", attributes: [{ attribute: "mail", to: "new5@example.com" }] },
    { name: "u7", groupsAdded: ["staff"], groupsRemoved: ["engines"] },
  ]);
  expect((await command("apply")).code).toBe(0);
});

test("what is adopted is what was shown: other ids are another plan, and some can be chosen or left out", async () => {
  await company.write("people.csv", before);
  await command("apply");
  await company.write("people.csv", rebuilt);
  const shown = await run("plan", "--override", "heldNames");
  await company.write("people.csv", rebuilt.replace("B3,", "C3,"));
  const adopt = ["apply", "staff", "--override", "heldNames", "--digest", shown.plan.digest];
  expect(await command(...adopt)).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("the changes differ from the plan that was shown"),
  });
  const adoptHeld = async (...part: string[]): Promise<unknown> => {
    const held = await command("apply");
    const [, id = ""] = /approve --config \S+ (\S+) --override heldNames`$/m.exec(held.stderr) ?? [];
    return command("approve", id, "--override", "heldNames", ...part);
  };
  expect(await adoptHeld("--these", "u4")).toMatchObject({ code: 0 });
  expect(await adoptHeld("--except", "u3")).toMatchObject({ code: 0 });
  const { departures } = await run("plan");
  expect(departures.reused).toMatchObject({ count: 1, examples: [{ name: "u3", was: "A3", is: "C3", held: true }] });
});

test("a preview prints the command that adopts, and says nothing else of these names", async () => {
  await company.write("people.csv", before);
  await command("apply");
  await company.write(
    "people.csv",
    rebuilt.replace("new5@", "u5@").replace("u7@example.com,active,staff", "u7@example.com,active,engines"),
  );
  const { code, stdout } = await command("plan", "--override", "heldNames");
  expect(code).toBe(0);
  expect(stdout).not.toMatch(/stay unchanged|adopt them by name/);
  const [, digest = ""] = /apply --config \S+ staff --override heldNames --digest (\w+)`$/m.exec(stdout) ?? [];
  expect((await command("apply", "staff", "--override", "heldNames", "--digest", digest)).code).toBe(0);
  const { departures } = await run("plan");
  expect(departures.reused.count).toBe(0);
});

test("the note on a reused name says which rename waits for it", async () => {
  await company.write(
    "people.csv",
    "id,login,name,mail,status,groups\n1,asmith,Ann Smith,,active,\n2,bob,Bob,,active,\n",
  );
  await command("apply");
  await company.write(
    "people.csv",
    "id,login,name,mail,status,groups\n1,ajones,Ann Jones,,active,\n2,bob,Bob,,active,\n3,asmith,Art Smith,,active,\n",
  );
  const line = "user asmith: company 1 before, 3 now; user ajones (company 1) waits for its name";
  const { stdout } = await command("apply");
  expect(stdout).toContain(line);
  const [{ id }] = JSON.parse((await command("runs", "--json")).stdout).runs;
  expect((await command("show", id)).stdout).toContain(line);
  expect((await command("history", "ajones")).stdout).toContain(line);
});

test("a stored plan whose files somebody has changed is not approved; of an older one nobody is owned who was not shown", async () => {
  await company.configure((yaml) => `${yaml}    approval: required\n`);
  await command("apply");
  const [{ id }] = JSON.parse((await command("runs", "--json")).stdout).runs;
  const daemon = join(company.folder, "data", "daemon");
  const file = join(daemon, "runs", id, "managed.parquet");
  await connection().run(`
    COPY (FROM read_parquet('${file}') UNION ALL VALUES ('user', 'admin')) TO '${file}.new' (FORMAT parquet, COMPRESSION zstd)`);
  await writeFile(file, await readFile(`${file}.new`));
  await rm(`${file}.new`);
  const refused = await command("approve", id);
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("its files have changed since the run. Plan again: `"),
  });
  // One of an older version has no seal: nobody is owned who was not shown.
  const journal = join(daemon, "journal.json");
  await writeFile(journal, (await readFile(journal, "utf8")).replaceAll(/"seal": ?"[0-9a-f]+",?/g, ""));
  expect((await command("approve", id)).code).toBe(0);
  const [ledger] = await readdir(join(daemon, "ledgers"));
  await connection().run(`ATTACH '${join(daemon, "ledgers", ledger ?? "")}' AS owned (READ_ONLY)`);
  const owned = await connection().rows("SELECT name FROM owned.principal WHERE kind = 'user' ORDER BY name");
  await connection().run("DETACH owned");
  expect(owned).toEqual([{ name: "ada" }, { name: "grace" }, { name: "zoe" }]);
});

test("of two people who exchanged their logins, each printed command leads to the next one, and the last one applies the plan", async () => {
  await company.configure((yaml) => yaml.replace("defaultPassword:", "limits: { updates: 1 }\n    defaultPassword:"));
  const two = (a: string, b: string): string =>
    `id,login,name,mail,status,groups\nA1,${a},Ada,ada@example.com,active,staff\nA2,${b},Bob,bob@example.com,active,staff\n`;
  await company.write("people.csv", two("ada", "bob"));
  await command("apply");
  await company.write("people.csv", two("bob", "ada"));
  const printed = (text: string): string[] =>
    (/`(?:rollcall|node \S+) ((?:plan|apply) --config [^`]*)`$/m.exec(text)?.[1] ?? "")
      .replace(/--config \S+ /, "")
      .split(" ");
  const held = await command("plan");
  // Nothing would be applied by overriding the limit on held names.
  expect(held).toMatchObject({ code: 3, stderr: expect.stringContaining("2 names belong to other records now") });
  expect(held.stderr).not.toContain("this applies exactly this plan");
  const given = await command(...printed(held.stdout));
  expect(given).toMatchObject({ code: 3, stderr: expect.stringContaining("held by the limit on updates") });
  expect(printed(given.stderr)).toContain("reusedNames,updates");
  expect(await command(...printed(given.stderr))).toMatchObject({ code: 0 });
  expect(await command("plan")).toMatchObject({ code: 0 });
});
