import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml
    .replace("name: entry.login", `name: { value: lower(entry.name), unique: "name + string(n)" }`)
    .replace(
      "    defaultPassword: initial-user-secret\n",
      `    deletions: { after: 30d }
    defaultPassword: initial-user-secret
  others:
    from: [strangers]
    to: analytics
    users: { name: entry.id, displayName: entry.id }
`,
    )
    .replace("syncs:\n", "  strangers:\n    connector: csv\n    users: { file: strangers.csv, id: id }\nsyncs:\n"),
);
const { command } = company;

/** Writes who is there: `1 Adam`. */
const people = (...all: readonly string[]): Promise<void> =>
  company.write(
    "people.csv",
    `id,login,name,mail,status,groups\n${all.map((each) => each.replace(/^(\S+) (.*)$/, "$1,,$2,,active,\n")).join("")}`,
  );

/** The names that the target has, by record: what the ledger has is what was applied. */
async function names(): Promise<readonly string[]> {
  const { code, stderr } = await command("export", "staff", "--raw", "--to", join(company.folder, "out"));
  expect(code, stderr).toBe(0);
  const text = await readFile(join(company.folder, "out", "users.csv"), "utf8");
  return text
    .split("\n")
    .flatMap((line) => /"((?:adam|eve)\d*)"/.exec(line)?.[1] ?? [])
    .toSorted();
}

test("names that are taken become the next free ones, which stay theirs until they are gone for good", async () => {
  await company.write("strangers.csv", "id\nadam4\n");
  expect((await command("apply", "others")).code).toBe(0);
  await people("1 Adam", "2 Adam", "3 Eve");
  const first = await command("apply", "staff");
  expect(first.code).toBe(0);
  expect(first.stdout).toContain("user adam becomes adam2");

  // Whoever comes first by id does not take the name of those who have it; adam4 is somebody else's.
  await people("0 Adam", "00 Adam", "1 Adam", "2 Adam", "3 Eve");
  expect((await command("apply", "staff")).code).toBe(0);
  expect(await names()).toEqual(["adam", "adam2", "adam3", "adam4", "adam5", "eve"]);
  const { stdout: explained } = await command("explain", "adam5");
  expect(explained).toMatch(/included as adam5: the name "adam" is taken, so its name is "adam5" \(unique\)/);

  // Within the grace period a name is not given to anybody else, and who comes back has it again.
  await people("00 Adam", "1 Adam", "2 Adam", "3 Eve", "9 Adam");
  const { stdout: json } = await command("apply", "staff", "--json");
  expect(await names()).toEqual(["adam", "adam2", "adam3", "adam4", "adam5", "adam6", "eve"]);
  await people("0 Adam", "00 Adam", "1 Adam", "2 Adam", "3 Eve", "9 Adam");
  expect((await command("plan", "staff")).code).toBe(0);

  // An undo takes the name back; the next run gives it to the same person.
  const [, id = ""] = /"run": ?"([^"]+)"/.exec(json) ?? [];
  const undo = await command("undo", id, "--json");
  const [, undone = ""] = /"run": ?"([^"]+)"/.exec(undo.stdout) ?? [];
  expect(await command("approve", undone)).toMatchObject({ code: 0 });
  const again = await command("plan", "staff");
  expect(again.stdout).toContain("user adam becomes adam6");

  await company.configure((yaml) => yaml.replace('"name + string(n)"', '"name + strnig(n)"'));
  expect((await command("validate")).stderr).toMatch(
    /rollcall\.yaml:\d+:\d+: syncs\.staff\.users\.name\.unique: unknown function `strnig`; did you mean `string`\?/,
  );
});
