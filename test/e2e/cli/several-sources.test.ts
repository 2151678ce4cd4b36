import { rm } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const vpn = `number,address,name,groups
v1,ADA@example.com,A. Lovelace,remote
v2,guest@example.com,A Guest,remote
`;

const company = companyOfEachTest((yaml) =>
  yaml
    .replace(
      "syncs:",
      `  vpn:
    connector: csv
    users: { file: vpn.csv, id: number, memberOf: { column: groups } }
    groups: { file: vpn-groups.csv, id: id }
syncs:`,
    )
    .replace(
      "[company]",
      "[company, { source: vpn, optional: true }]\n    join: { users: 'lower(coalesce(entry.mail, entry.address))' }",
    )
    .replace('entry.status == "active"', 'entry.status == "active" || !has(entry.status)')
    .replace("name: entry.login", "name: coalesce(entry.login, entry.number)"),
);
beforeEach(async () => {
  await company.write("vpn.csv", vpn);
  await company.write("vpn-groups.csv", "id,name\nremote,Remote\n");
});
const { run } = company;

test("one person in two sources is one user; while the optional one is gone, what came from it stays as it is", async () => {
  const { plan } = await run("apply");
  expect(plan.counts).toMatchObject({ users: { create: 4 }, groups: { create: 3 } });
  expect(plan.changes).toContainEqual(
    expect.objectContaining({ name: "ada", groupsAdded: ["engines", "remote", "staff"] }),
  );
  expect(plan.changes).toContainEqual(expect.objectContaining({ name: "v2", groupsAdded: ["remote"] }));

  await rm(join(company.folder, "vpn.csv"));
  await company.write("people.csv", people.replace("Ada Lovelace", "Countess").replace("Grace Hopper", "Admiral"));
  const without = await run("apply");
  expect(without.outcome).toBe("applied");
  expect(without.plan.changes).toMatchObject([{ name: "grace", action: "update" }]);
  expect(without.notes.join("\n")).toMatch(/source vpn could not be read.*\n.*vpn\.csv.*\n.*left alone/);

  await company.write("vpn.csv", "number,address,name,groups\nv1,ADA@example.com,A. Lovelace,\n");
  const { changes } = (await run("plan")).plan;
  expect(changes).toMatchObject([
    { action: "update", name: "ada", attributes: [{ to: "Countess" }], groupsRemoved: ["remote"] },
    { action: "delete", name: "v2" },
  ]);
});

test("the same records twice in one source are quarantined with whom they may be in the other", async () => {
  await company.write("people.csv", `${people}5,ada2,Another Ada,ada@example.com,active,\n`);
  const { notes, plan } = await run("plan");
  expect(plan.changes.map(({ name }: { name: string }) => name)).not.toContain("ada");
  expect(notes.join("\n")).toMatch(
    /the join key "ada@example\.com" is shared by several records: 3 users, .*people\.csv:2.*people\.csv:6.*vpn\.csv:2/,
  );
});
