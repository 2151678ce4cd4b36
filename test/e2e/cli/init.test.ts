import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { people } from "../../support/rollcall/company.ts";
import { base, noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";
import { OktaServer } from "../../support/okta-directory.ts";
import { largeCompany } from "../../contract/source/company.ts";
import { oktaDirectoryOf } from "../../contract/source/okta-medium.ts";
import { startScim } from "../../support/scim.ts";
import { startService } from "../../support/rollcall/service.ts";
import { atTerminal, keys } from "../../support/rollcall/terminal.ts";
import { xlsx } from "../../support/xlsx.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-init-"));
  await writeFile(join(folder, "people.csv"), people);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe("init --sample", () => {
  test("writes the sample company, which runs, and never over anything", async () => {
    const empty = await mkdtemp(join(tmpdir(), "rollcall-sample-"));
    onTestFinished(() => rm(empty, { recursive: true, force: true }));
    const made = await rollcall(["init", "--sample"], { cwd: empty });
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(made.stdout).toContain("written: rollcall.yaml\nwritten: sample\n");
    expect((await readdir(empty)).toSorted()).toEqual(["rollcall.yaml", "sample"]);
    const planned = await rollcall(["plan"], { cwd: empty });
    expect(planned.code).toBe(2);
    expect(planned.stdout).toContain("203 users and 30 groups created");
    expect((await readdir(empty)).toSorted()).toEqual(["data", "rollcall.yaml", "sample"]);

    const again = await rollcall(["init", "--sample"], { cwd: empty });
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(again.stderr).toContain("rollcall.yaml already exists: use an empty folder");
    await rm(join(empty, "rollcall.yaml"));
    expect((await rollcall(["init", "--sample"], { cwd: empty })).stderr).toContain("sample already exists");
    expect(await readdir(empty)).not.toContain("rollcall.yaml");
  });

  test("goes beside the file that --config names, and not with answers", async () => {
    const made = await rollcall(["init", "--sample", "--config", "new/c.yaml", "--json"], { cwd: folder });
    expect(made.code).toBe(0);
    expect((await readdir(join(folder, "new"))).toSorted()).toEqual(["c.yaml", "sample"]);
    expect(await readFile(join(folder, "new/c.yaml"), "utf8")).toMatch(
      /^# yaml-language-server: \$schema=\S+schema.json\n/,
    );
    const mixed = await rollcall(["init", "--sample", "--users", "people.csv"], { cwd: folder });
    expect(mixed).toMatchObject({ code: 1, stderr: expect.stringContaining("cannot be used with option") });
  });
});

describe("init without a terminal", () => {
  test("says which flags are missing", async () => {
    const { code, stderr } = await rollcall(["init"], { cwd: folder });
    expect(code).toBe(1);
    expect(stderr).toContain("--users FILE is missing");
    expect(await readdir(folder)).toEqual(["people.csv"]);
  });

  test("writes a configuration that is valid, and never over another one without --force", async () => {
    const args = ["init", "--users", "people.csv", "--json"];
    const made = await rollcall(args, { cwd: folder });
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(made.stdout)).toMatchObject({ users: 4, written: ["rollcall.yaml"], kept: [] });
    const written = await readFile(join(folder, "rollcall.yaml"), "utf8");
    expect(written).toContain("name: lower(entry.login)");
    const [, schema = ""] = /^# yaml-language-server: \$schema=(.*)\n/.exec(written) ?? [];
    expect(JSON.parse(await readFile(schema, "utf8"))).toHaveProperty("properties.syncs");
    const planned = await rollcall(["plan", "--json"], { cwd: folder });
    expect(planned.code).toBe(2);

    const again = await rollcall(args, { cwd: folder });
    expect(again.code).toBe(1);
    expect(JSON.parse(again.stdout)).toMatchObject({ error: { message: expect.stringContaining("already exists") } });
    await writeFile(join(folder, "rollcall.yaml"), "service:\n");
    const forced = await rollcall([...args, "--force"], { cwd: folder });
    expect(JSON.parse(forced.stdout)).toMatchObject({ written: ["rollcall.yaml"], kept: ["rollcall.yaml.1"] });
    expect(await readFile(join(folder, "rollcall.yaml.1"), "utf8")).toBe("service:\n");
    const { ino } = await stat(join(folder, "rollcall.yaml"));
    const twice = await rollcall([...args, "--force", "--approval", "automatic"], { cwd: folder });
    expect(JSON.parse(twice.stdout)).toMatchObject({ kept: ["rollcall.yaml.2"] });
    // It got a second name before another file got its first one: at no moment was there none.
    expect((await stat(join(folder, "rollcall.yaml.2"))).ino).toBe(ino);
    expect((await readdir(folder)).filter((name) => name.startsWith("."))).toEqual([]);
  });

  test("writes into a folder that is not there yet, and says before it asks when it cannot", async () => {
    const file = join(folder, "etc", "company", "rollcall.yaml");
    const args = ["init", "--source", "csv", "--users", "../../people.csv", "--config"];
    const made = await rollcall([...args, file], { cwd: folder });
    expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining(`plan --config ${file}`) });
    expect((await rollcall(["plan", "--config", file], { cwd: folder })).code).toBe(2);

    const refused = await rollcall([...args, join(folder, "people.csv", "rollcall.yaml")], { cwd: folder });
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("people.csv is not a folder") });
  });

  test("leads to a plan that waits, is approved, and is what the service then has", async () => {
    await writeFile(join(folder, "people.csv"), people.replaceAll("\n", "\r\n"));
    expect((await rollcall(["init", "--source", "csv", "--users", "people.csv"], { cwd: folder })).code).toBe(0);
    expect((await rollcall(["check"], { cwd: folder })).code).toBe(0);
    expect((await rollcall(["plan"], { cwd: folder })).code).toBe(2);
    const applied = await rollcall(["apply"], { cwd: folder });
    expect(applied.code).toBe(3);
    const { stdout } = await rollcall(["show", "pending", "--json"], { cwd: folder });
    const { id } = (JSON.parse(stdout) as { run: { id: string } }).run;
    expect(applied.stdout + applied.stderr).toContain(`rollcall approve ${id}`);
    expect((await rollcall(["approve", id, "--yes"], { cwd: folder })).code).toBe(0);
    expect((await rollcall(["plan"], { cwd: folder })).code).toBe(0);

    // Another port: the file's own may be taken here.
    const file = join(folder, "rollcall.yaml");
    await writeFile(file, (await readFile(file, "utf8")).replace(":8442", ":0"));
    const running = startRollcall(["start"], { cwd: folder });
    await running.wrote(/ready|listening/);
    expect((await rollcall(["health"], { cwd: folder })).code).toBe(0);
    running.process.kill("SIGTERM");
    expect((await running.ended).code).toBe(0);
  });

  test("detects how the file is written, and takes the column of the login from a flag", async () => {
    const rows = "Nr;Kürzel;Name;Gruppe\r\n1;amuell;Anna Müller;g1|g2\r\n;;;\r\n";
    await writeFile(join(folder, "leute.csv"), Buffer.from(rows, "latin1"));
    await writeFile(join(folder, "gruppen.csv"), "id;name\ng1;Team\ng2;Büro\n");
    const args = ["init", "--source", "csv", "--users", "leute.csv", "--id", "Nr", "--groups", "gruppen.csv"];
    const wrong = await rollcall([...args, "--login", "Login"], { cwd: folder });
    expect(wrong.stderr).toContain("leute.csv has no column Login. Name one with --login: Nr, Kürzel, Name, Gruppe");
    const made = await rollcall([...args, "--login", "Kürzel", "--member-of", "Gruppe"], { cwd: folder });
    expect(made.code, made.stderr).toBe(0);
    const planned = await rollcall(["plan", "--json"], { cwd: folder });
    const { users } = JSON.parse(planned.stdout).runs[0].plan.counts;
    expect(users).toMatchObject({ create: 1 });
    expect(planned.stdout).toContain("Anna Müller");
    expect(await readFile(join(folder, "rollcall.yaml"), "utf8")).toMatch(/column: Gruppe\n +separator: "?\|"?\n/);
  });

  test("a workbook is read like a CSV file", async () => {
    const rows = people
      .trim()
      .split("\n")
      .map((row) => row.split(","));
    await writeFile(join(folder, "people.xlsx"), xlsx([{ name: "People", rows }]));
    const made = await rollcall(["init", "--users", "people.xlsx", "--json"], { cwd: folder });
    expect(made, made.stdout).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(made.stdout)).toMatchObject({ users: 4, written: ["rollcall.yaml"] });
    expect((await rollcall(["plan"], { cwd: folder })).stdout).toContain("users created");
  });

  test("names the columns when the one for the id cannot be guessed, and leaves nothing behind", async () => {
    await writeFile(join(folder, "odd.csv"), "Alpha;Beta\n1;2\n");
    const { code, stderr } = await rollcall(["init", "--source", "csv", "--users", "odd.csv"], { cwd: folder });
    expect(code).toBe(1);
    expect(stderr).toContain("Name one with --id: Alpha, Beta");
    expect(await readdir(folder)).toEqual(["odd.csv", "people.csv"]);
  });
});

/**
 * What is shown beside a question whose answer is not. The question itself begins like the one before it, which is shown
 * once more when it is answered: whoever types then is seen by everybody.
 */
const unseen = "ctrl+t toggle visibility";

describe("init at a terminal", () => {
  test("asks for CSV files, again where an answer is wrong, and shows what becomes of the records", async () => {
    const rows = people.split("\n");
    const cells = ["team", "Kernel", "Compilers", "Kernel", "Compilers"];
    await writeFile(
      join(folder, "people.csv"),
      rows.map((row, at) => (row === "" ? "" : `${row},${cells[at]}`)).join("\n"),
    );
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.down + keys.enter);
    await terminal.answer("File of users", `people.txt${keys.enter}`);
    await terminal.answer("people.txt does not exist", `${"\u007F".repeat(3)}csv${keys.enter}`);
    await terminal.answer("Which column identifies a person", keys.enter);
    await terminal.answer("File of groups", keys.enter);
    await terminal.answer("log in with?", keys.enter);
    await terminal.answer("Which attribute makes them", "");
    await terminal.answer("❯ (none)", keys.down + keys.down + keys.enter);
    await terminal.answer("Use these rules?", `y${keys.enter}`);
    expect(terminal.shown()).toContain("4 users, 0 groups");
    expect(terminal.shown()).toContain("❯ login    ada, grace, zoe");
    expect(terminal.shown()).toMatch(/user +ada +Ada Lovelace +ada@example\.com +Kernel +people\.csv:2/);
    expect(terminal.shown()).toMatch(/user +excluded +people\.csv:5/);
    await terminal.answer("Which service", keys.enter);
    await terminal.answer("When should it run?", keys.enter);
    await terminal.answer("Which plans need a person's approval?", keys.enter);
    expect(await terminal.ended).toBe(0);
    expect(terminal.shown()).toContain("written: rollcall.yaml");
    expect(await readFile(join(folder, "rollcall.yaml"), "utf8")).toContain('schedule: "*/15 * * * *"');
    const planned = await rollcall(["plan"], { cwd: folder });
    expect(planned.stdout).toContain("3 users and 2 groups created");
    expect((await rollcall(["check"], { cwd: folder })).code).toBe(0);
  });

  test("goes back only to the answer that was wrong: a column that does not identify anybody", async () => {
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.down + keys.enter);
    await terminal.answer("File of users", `people.csv${keys.enter}`);
    await terminal.answer("Which column identifies a person", keys.down.repeat(4) + keys.enter);
    await terminal.answer("File of groups", keys.enter);
    await terminal.answer("this does not work: id: active does not identify one user: people.csv:2 and", "");
    await terminal.answer("❯ column that identifies a person: status", keys.enter);
    await terminal.answer("❯ status", "\u001B[A".repeat(4) + keys.enter);
    await terminal.answer("log in with?", keys.enter);
    await terminal.answer("Use these rules?", keys.interrupt);
    await terminal.ended;
    expect(terminal.shown().match(/✔ File of users/g)).toHaveLength(1);
  });

  test("Ctrl-C in the middle leaves nothing", async () => {
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.down + keys.enter);
    await terminal.answer("File of users", `people.csv${keys.enter}`);
    await terminal.answer("Which column identifies a person", keys.interrupt);
    expect(await terminal.ended).toBe(1);
    expect(terminal.shown()).toContain("interrupted: nothing was written");
    expect(await readdir(folder)).toEqual(["people.csv"]);
  });
});

describe("init with servers", () => {
  test("a SCIM server and a service elsewhere: secrets from the environment, rules changed by hand, logins tried again", async () => {
    const users = [{ id: "1", userName: "Ada", displayName: "Ada Lovelace", active: true }];
    const scim = await startScim({ users, groups: [] }, { authorization: () => "Bearer token-of-ada" });
    onTestFinished(() => scim.close());
    await using service = await startService();
    await writeFile(join(folder, "analytics.secret"), "of another configuration\n");
    const terminal = atTerminal(["init"], { cwd: folder, env: { SCIM_TOKEN: "token-of-ada" } });
    await terminal.answer("Where do the users and groups come from?", keys.down + keys.down + keys.enter);
    await terminal.answer("The server's address", `${scim.url}\r\n`);
    await terminal.answer("How does Rollcall log in?", keys.enter);
    await terminal.answer("where should it be stored?", keys.down + keys.enter);
    await terminal.answer("Name of the variable:", `NOT_THERE${keys.enter}`);
    await terminal.answer("NOT_THERE is not set here", `${"\u007F".repeat(9)}SCIM_TOKEN${keys.enter}`);
    await terminal.answer("log in with?", "");
    await terminal.answer("❯ userName", keys.enter);
    await terminal.answer("  ada   ", "");
    await terminal.answer("Use these rules?", `n${keys.enter}`);
    await terminal.answer("users.include:", keys.enter);
    await terminal.answer("users.name:", `${"\u007F".repeat(30)}lower(entry.userName${keys.enter}`);
    await terminal.answer("a ) is expected here", `) + "-x"${keys.enter}`);
    await terminal.answer("users.displayName:", keys.enter);
    await terminal.answer("  ada-x  ", "");
    await terminal.answer("Use these rules?", `y${keys.enter}`);
    await terminal.answer("Which service", keys.down + keys.enter);
    await terminal.answer("Address of the service", `${service.url}${keys.enter}`);
    await terminal.answer("A user with", `${service.administrator.name}${keys.enter}`);
    await terminal.answer("where should it be stored?", keys.enter);
    await terminal.answer(unseen, `wrong-password${keys.enter}`);
    await terminal.answer("this does not work", "");
    await terminal.answer("Which answer should be changed?", "");
    await terminal.answer("❯ Password of admin", keys.enter);
    await terminal.answer("where should it be stored?", keys.enter);
    await terminal.answer(unseen, `${service.administrator.password}${keys.enter}`);
    await terminal.answer("with the administration privilege", "");
    await terminal.answer("When should it run?", keys.enter);
    await terminal.answer("Which plans need a person's approval?", keys.down + keys.enter);
    expect(await terminal.ended).toBe(0);
    const written = await readFile(join(folder, "rollcall.yaml"), "utf8");
    expect(written).toContain("bearer: ${env:SCIM_TOKEN}");
    expect(written).toMatch(/^ {4}approval: automatic-within-limits /m);
    // What another configuration may need stays as it is.
    expect(written).toContain("password: ${file:analytics-2.secret}");
    expect(await readFile(join(folder, "analytics.secret"), "utf8")).toBe("of another configuration\n");
    for (const secret of ["token-of-ada", service.administrator.password])
      expect(terminal.shown() + written).not.toContain(secret);
    const applied = await rollcall(["apply", "--yes"], { cwd: folder, env: { SCIM_TOKEN: "token-of-ada" } });
    expect(applied).toMatchObject({ code: 0, stdout: expect.stringContaining("ada-x") });
  });
});

describe("init with Okta", () => {
  test("asks for the organization and an API token, and proposes to leave out who is suspended", async () => {
    const directory = oktaDirectoryOf(largeCompany(4));
    const users = directory.users.map((user, index) => (index === 0 ? { ...user, status: "SUSPENDED" } : user));
    const server = await OktaServer.start({ ...directory, users }, { token: "00token-of-ada" });
    onTestFinished(() => server.close());
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", `Okta${keys.enter}`);
    await terminal.answer("The organization's address", `${server.url}/admin${keys.enter}`);
    await terminal.answer("How does Rollcall log in?", keys.down + keys.enter);
    await terminal.answer("where should it be stored?", keys.enter);
    await terminal.answer(unseen, `00token-of-ada${keys.enter}`);
    await terminal.answer("expected an address without a path", "");
    await terminal.answer("Which answer should be changed?", "");
    expect(terminal.shown()).not.toContain("token-of-ada");
    await terminal.answer("❯ address", keys.enter);
    await terminal.answer("The organization's address", `${server.url}${keys.enter}`);
    await terminal.answer("log in with?", keys.enter);
    await terminal.answer('entry.status != "SUSPENDED"', "");
    await terminal.answer("Use these rules?", keys.interrupt);
    expect(await terminal.ended).toBe(1);
  });
});

describe("init with a database", () => {
  test("asks for queries, and again for the one that is wrong", async () => {
    const database = new DatabaseSync(join(folder, "hr.db"));
    database.exec(
      "CREATE TABLE people (number integer, login text, name text); INSERT INTO people VALUES (7, 'ada', 'Ada')",
    );
    database.close();
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", `SQL${keys.enter}`);
    await terminal.answer("The database (postgres:", `sqlite:hr.db${keys.enter}`);
    await terminal.answer("Query for the users", `SELECT * FROM peopel${keys.enter}`);
    await terminal.answer("Its column that identifies a person", `number${keys.enter}`);
    await terminal.answer("Query for the groups", keys.enter);
    await terminal.answer("no such table: peopel", "");
    await terminal.answer("❯ query for users: SELECT * FROM peopel", keys.enter);
    await terminal.answer("Query for the users", `SELECT * FROM people${keys.enter}`);
    await terminal.answer("log in with?", "");
    await terminal.answer("❯ login", keys.enter);
    await terminal.answer("Use these rules?", keys.interrupt);
    expect(await terminal.ended).toBe(1);
  });
});

describe("init with a file in LDIF", () => {
  test("asks for minimums, which a file without a count needs", async () => {
    const entry = (dn: string, kind: string, name: string): string =>
      `dn: ${dn},${base}\nobjectClass: ${kind}\nentryUUID: ${randomUUID()}\ncn: ${name}\n\n`;
    const users = ["ada", "zoe"].map((name) => entry(`uid=${name}`, `inetOrgPerson\nuid: ${name}`, name));
    const groups = ["kernel", "compilers"].map((name) => entry(`cn=${name}`, "groupOfNames", name));
    await writeFile(join(folder, "company.ldif"), [...users, ...groups].join(""));
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.enter);
    await terminal.answer("or a file in LDIF", `company.ldif${keys.enter}`);
    await terminal.answer("The fewest users", `two${keys.enter}`);
    await terminal.answer("expected a whole number", `${"\u007F".repeat(3)}2${keys.enter}`);
    await terminal.answer("The fewest groups", `2${keys.enter}`);
    await terminal.answer("log in with?", "");
    await terminal.answer("❯ uid", keys.enter);
    await terminal.answer("Use these rules?", keys.interrupt);
    expect(await terminal.ended).toBe(1);
    expect(terminal.shown()).toContain("2 users, 2 groups");
  });
});

const reason = await noOpenLdap();
describe.skipIf(reason !== undefined)("init with an LDAP server", () => {
  test("a wrong password is asked for again, bases are offered, and the password is in a file of its own", async () => {
    await using server = await startOpenLdap({
      ldif: `dn: ou=people,${base}\nobjectClass: organizationalUnit\nou: people\n\ndn: uid=ada,ou=people,${base}\nobjectClass: inetOrgPerson\nuid: Ada\ncn: Ada Lovelace\nsn: Lovelace\nmail: ada@example.com\n\n`,
    });
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.enter);
    await terminal.answer("The server's address", `${server.url}${keys.enter}`);
    await terminal.answer("StartTLS?", `n${keys.enter}`);
    await terminal.answer("Log in as", `${reader.dn}${keys.enter}`);
    await terminal.answer("where should it be stored?", keys.enter);
    await terminal.answer(unseen, `wrong-password${keys.enter}`);
    await terminal.answer("this does not work", "");
    await terminal.answer("Which answer should be changed?", "");
    await terminal.answer("❯ Password of", keys.enter);
    await terminal.answer("where should it be stored?", keys.enter);
    await terminal.answer(unseen, `${reader.password}${keys.enter}`);
    await terminal.answer(`the server holds ${base}`, "");
    await terminal.answer("Where are the users", "");
    await terminal.answer(`❯ ou=people,${base}`, keys.enter);
    await terminal.answer("Where are the groups", "");
    await terminal.answer("(none: read no groups)", keys.down + keys.down + keys.enter);
    await terminal.answer("log in with?", "");
    await terminal.answer("❯ uid", keys.enter);
    await terminal.answer("Use these rules?", `y${keys.enter}`);
    await terminal.answer("Which service", keys.enter);
    await terminal.answer("When should it run?", keys.enter);
    await terminal.answer("Which plans need a person's approval?", keys.enter);
    expect(await terminal.ended).toBe(0);
    expect(terminal.shown()).not.toContain(reader.password);
    const written = await readFile(join(folder, "rollcall.yaml"), "utf8");
    expect(written).toContain("${file:company.secret}");
    expect(written).not.toContain(reader.password);
    expect((await stat(join(folder, "company.secret"))).mode & 0o777).toBe(0o600);
    const { code, stdout } = await rollcall(["check"], { cwd: folder });
    expect(stdout).toContain('"name":"ada"');
    expect(code).toBe(0);
  });
});
