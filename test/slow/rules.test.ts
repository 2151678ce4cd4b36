import { describe, expect, test } from "vitest";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

let yaml: string;
const company = companyOfEachTest((text) => (yaml = text));

const edit = (from: string | RegExp, to: string): Promise<void> =>
  company.write("rollcall.yaml", yaml.replace(from, to));

/** The changes of the one run of a command. */
async function changes(name: "plan" | "apply"): Promise<object[]> {
  return (await company.run(name)).plan.changes;
}

test("what the absence of a value means: keep what the target has, clear it, or a default; an empty text clears", async () => {
  const mailRule = (rule: string) => edit("mail: entry.mail", `mail: ${rule}`);
  await changes("apply");
  await company.write("people.csv", people.replace("grace@example.com", ""));
  const cleared = [{ name: "grace", attributes: [{ attribute: "mail", from: "grace@example.com" }] }];
  await mailRule("{ value: entry.mail, absent: keep }");
  expect(await changes("plan")).toEqual([]);
  await mailRule("{ value: entry.mail, absent: clear }");
  expect(await changes("plan")).toMatchObject(cleared);
  await mailRule(`{ value: 'coalesce(entry.mail, "")', absent: keep }`);
  expect(await changes("plan")).toMatchObject(cleared);
  await mailRule("{ value: entry.mail, absent: { default: nobody@example.com } }");
  expect(await changes("plan")).toMatchObject([
    { name: "grace", attributes: [{ from: "grace@example.com", to: "nobody@example.com" }] },
    { name: "zoe", attributes: [{ attribute: "mail", to: "nobody@example.com" }] },
  ]);
});

describe("groups", () => {
  test("of the configuration come, have every user in them, and go with it", async () => {
    await changes("apply");
    await edit(
      "    defaultPassword:",
      "    staticGroups: { everyone: { displayName: Everyone, groups: [staff] } }\n    defaultGroups: [everyone]\n    defaultPassword:",
    );
    const everyone = expect.objectContaining({ groupsAdded: ["everyone"], groupsRemoved: [] });
    expect(await changes("apply")).toEqual([
      expect.objectContaining({ action: "create", kind: "group", name: "everyone", groupsAdded: ["staff"] }),
      everyone,
      everyone,
      everyone,
    ]);
    expect(await changes("plan")).toEqual([]);
    await company.write("rollcall.yaml", yaml);
    expect((await changes("plan"))[0]).toMatchObject({ action: "delete", kind: "group", name: "everyone" });
  });

  test("get other names, and are left out", async () => {
    await edit(
      "      name: entry.id\n",
      '      name: entry.id\n      exclude: entry.id == "engines"\n      rename: { staff: Everybody }\n',
    );
    const created = await changes("plan");
    expect(created.filter((change) => "kind" in change && change.kind === "group")).toMatchObject([
      { name: "Everybody", attributes: [{ to: "Staff" }] },
    ]);
    expect(created).toContainEqual(expect.objectContaining({ name: "ada", groupsAdded: ["Everybody"] }));
  });
});

test("a regular expression that is none is a problem of the configuration, at its place", async () => {
  await edit("entry.status ==", 'matches(entry.login, "(") && entry.status ==');
  const { code, stderr } = await company.command("plan");
  expect(code).toBe(1);
  expect(stderr).toMatch(/rollcall\.yaml:18:37: syncs\.staff\.users\.include: .*missing closing \)/);
});
