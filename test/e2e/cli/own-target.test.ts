import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { ObjectStore } from "../../support/object-target.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const module = fileURLToPath(new URL("../../support/object-target.ts", import.meta.url));

const company = companyOfEachTest((yaml) =>
  yaml
    .replace(
      /^service:[^]*?^targets:\n.*\n/m,
      `daemon: { data: data }\ntargets:\n  app: { connector: ${module}, file: "objects.json" }\n`,
    )
    .replace("to: analytics", "to: app")
    .replace(
      "      mail: entry.mail\n",
      "      emails: 'has(entry.mail) ? [entry.mail] : []'\n      title: '\"Member\"'\n",
    )
    .replace("      name: entry.id\n      displayName: entry.name\n", "      name: entry.id\n")
    .replace(
      / {4}defaultPassword:.*\n/,
      "    limits: { deletes: 100% }\n    drift: { policy: revert, ignore: [users.*.title] }\n",
    ),
);
const { command } = company;

const store = (): ObjectStore => new ObjectStore(join(company.folder, "objects.json"));

/** Paths of the target start where the command runs. */
const configured = (text: string): string =>
  text.replace('"objects.json"', JSON.stringify(join(company.folder, "objects.json")));

test("a target of one's own is planned, applied, explained and undone as any other", async () => {
  await company.configure(configured);
  expect(await command("check")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("target app: reached\n  objects in memory"),
  });
  const planned = await command("plan");
  expect(planned.stdout).toContain("+ ada  Ada Lovelace");
  expect(planned.code).toBe(2);
  expect(store().all()).toEqual([]);
  expect((await command("apply")).stdout).toContain("applied and verified");
  expect(store().people()).toMatchObject({
    ada: { displayName: "Ada Lovelace", title: "Member", emails: ["ada@example.com"] },
  });
  expect(store().groups()).toEqual({ engines: ["ada"], staff: ["ada", "grace", "zoe"] });
  expect((await command("plan")).code).toBe(0);
  expect((await command("explain", "ada")).stdout).toContain("title");

  const changed = store();
  changed.change("user", "ada", { title: "Countess", displayName: "A. Lovelace" });
  changed.save();
  const drift = await command("plan");
  expect(drift.stdout).toContain('displayName: "A. Lovelace" → "Ada Lovelace"');
  expect((await command("apply")).stdout).toContain("applied and verified");
  expect(store().people()["ada"]).toMatchObject({ title: "Countess", displayName: "Ada Lovelace" });

  await company.write(
    "people.csv",
    (await readFile(join(company.folder, "people.csv"), "utf8")).replace("Zoë Ünal", "Zoe"),
  );
  expect((await command("apply")).code).toBe(0);
  const runs = JSON.parse((await command("runs", "--json")).stdout) as { runs?: { id: string }[] };
  const [last] = runs.runs ?? (runs as unknown as { id: string }[]);
  const undone = await command("undo", last?.id ?? "");
  expect(undone.stderr + undone.stdout).toContain("waits for approval");
});

test("a target that does not show who is in its groups is not exported", async () => {
  await company.configure((yaml) => configured(yaml).replace('objects.json"', 'objects.json", readsMembers: false'));
  const folder = join(company.folder, "exported");
  expect(await command("export", "--to", folder)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("the target app cannot be exported: it does not show who is in its groups"),
  });
});

test.each([
  [(yaml: string) => yaml.replace("title:", "titel:"), /users\.titel: unknown key; did you mean "title"\?/],
  [(yaml: string) => yaml.replace("displayName: entry.name", "displayName: entry."), /staff\.users\.displayName/],
  [(yaml: string) => yaml.replace("users.*.title", "users.*.mail"), /staff\.drift\.ignore\[0\]/],
  [
    (yaml: string) => yaml.replace("limits:", "defaultPassword: long-enough-secret\n    limits:"),
    /defaultPassword: the target takes no passwords/,
  ],
  [(yaml: string) => yaml.replace("file: ", "fiel: "), /targets\.app\.fiel: unknown key; did you mean "file"\?/],
  [
    (yaml: string) => yaml.replace(/connector: \/.*?,/, "connector: ldap,"),
    /targets\.app\.connector: no connector is called ldap/,
  ],
  [
    (yaml: string) => yaml.replace(/connector: \/.*?,/, "connector: ./none.ts,"),
    /targets\.app\.connector: \.\/none\.ts does not exist/,
  ],
])("a mistake is told with its place (%#)", async (mistake, message) => {
  await company.configure(mistake);
  expect(await command("validate")).toMatchObject({ code: 1, stderr: expect.stringMatching(message) });
});
