import { mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { people } from "../../servers/company.ts";
import { base, noOpenLdap, reader, startOpenLdap } from "../../servers/openldap.ts";
import { rollcall } from "../../servers/rollcall.ts";
import { atTerminal, keys } from "../../servers/terminal.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-init-"));
  await writeFile(join(folder, "people.csv"), people);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe("init without a terminal", () => {
  test("says which flags are missing", async () => {
    const { code, stderr } = await rollcall(["init"], { cwd: folder });
    expect(code).toBe(1);
    expect(stderr).toContain("--source csv and --users FILE are missing");
    expect(await readdir(folder)).toEqual(["people.csv"]);
  });

  test("writes a configuration that is valid, and never over another one without --force", async () => {
    const args = ["init", "--source", "csv", "--users", "people.csv", "--json"];
    const made = await rollcall(args, { cwd: folder });
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(made.stdout)).toMatchObject({ users: 4, written: ["rollcall.yaml"], kept: [] });
    const written = await readFile(join(folder, "rollcall.yaml"), "utf8");
    expect(written).toContain("name: lower(entry.login)");
    const planned = await rollcall(["plan", "--json"], { cwd: folder });
    expect(planned.code).toBe(2);

    const again = await rollcall(args, { cwd: folder });
    expect(again.code).toBe(1);
    expect(JSON.parse(again.stdout)).toMatchObject({ error: { message: expect.stringContaining("exists already") } });
    await writeFile(join(folder, "rollcall.yaml"), "service:\n");
    const forced = await rollcall([...args, "--force"], { cwd: folder });
    expect(JSON.parse(forced.stdout)).toMatchObject({ written: ["rollcall.yaml"], kept: ["rollcall.yaml.1"] });
    expect(await readFile(join(folder, "rollcall.yaml.1"), "utf8")).toBe("service:\n");
  });

  test("names the columns when the one for the id cannot be guessed, and leaves nothing behind", async () => {
    await writeFile(join(folder, "odd.csv"), "Alpha;Beta\n1;2\n");
    const { code, stderr } = await rollcall(["init", "--source", "csv", "--users", "odd.csv"], { cwd: folder });
    expect(code).toBe(1);
    expect(stderr).toContain("Name one with --id: Alpha, Beta");
    expect(await readdir(folder)).toEqual(["odd.csv", "people.csv"]);
  });
});

describe("init at a terminal", () => {
  test("asks for CSV files, again where an answer is wrong, and shows what becomes of the records", async () => {
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.down + keys.enter);
    await terminal.answer("The file of users", `people.txt${keys.enter}`);
    await terminal.answer("people.txt cannot be read", `${"\u007F".repeat(3)}csv${keys.enter}`);
    await terminal.answer("Which column identifies a person", keys.enter);
    await terminal.answer("The file of groups", keys.enter);
    await terminal.answer("Take these rules?", `y${keys.enter}`);
    expect(terminal.shown()).toContain("4 users, 0 groups");
    expect(terminal.shown()).toContain('"name":"ada"');
    await terminal.answer("Which service", keys.enter);
    await terminal.answer("When is it to run?", keys.enter);
    expect(await terminal.ended).toBe(0);
    expect(terminal.shown()).toContain("written: rollcall.yaml");
    expect(await readFile(join(folder, "rollcall.yaml"), "utf8")).toContain('schedule: "*/15 * * * *"');
    expect((await rollcall(["check"], { cwd: folder })).code).toBe(0);
  });

  test("Ctrl-C in the middle leaves nothing", async () => {
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.down + keys.enter);
    await terminal.answer("The file of users", `people.csv${keys.enter}`);
    await terminal.answer("Which column identifies a person", keys.interrupt);
    expect(await terminal.ended).toBe(1);
    expect(terminal.shown()).toContain("interrupted: nothing was written");
    expect(await readdir(folder)).toEqual(["people.csv"]);
  });
});

const reason = await noOpenLdap();
describe.skipIf(reason !== undefined)("init with an LDAP server", () => {
  test("a wrong password is asked for again, bases are offered, and the password is in a file of its own", async () => {
    await using server = await startOpenLdap({
      ldif: `dn: uid=ada,${base}\nobjectClass: inetOrgPerson\nuid: Ada\ncn: Ada Lovelace\nsn: Lovelace\nmail: ada@example.com\n\n`,
    });
    const terminal = atTerminal(["init"], { cwd: folder });
    await terminal.answer("Where do the users and groups come from?", keys.enter);
    await terminal.answer("The server's address", `${server.url}${keys.enter}`);
    await terminal.answer("StartTLS?", `n${keys.enter}`);
    await terminal.answer("Log in as", `${reader.dn}${keys.enter}`);
    await terminal.answer("where is it to be?", keys.enter);
    await terminal.answer(`Password of ${reader.dn}:`, `wrong-password${keys.enter}`);
    await terminal.answer("that does not work", "");
    await terminal.answer("The server's address", keys.enter);
    await terminal.answer("StartTLS?", keys.enter);
    await terminal.answer("Log in as", keys.enter);
    await terminal.answer("where is it to be?", keys.enter);
    await terminal.answer(`Password of ${reader.dn}:`, `${reader.password}${keys.enter}`);
    await terminal.answer(`the server holds ${base}`, "");
    await terminal.answer("Where are the users", keys.enter);
    await terminal.answer("Where are the groups", `${"\u007F".repeat(base.length)}${keys.enter}`);
    await terminal.answer("Take these rules?", `y${keys.enter}`);
    await terminal.answer("Which service", keys.enter);
    await terminal.answer("When is it to run?", keys.enter);
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
