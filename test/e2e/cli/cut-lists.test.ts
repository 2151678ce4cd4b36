import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml
    .replace(/groups: \{ file.*\n/, "groups: { file: groups.csv, id: id, members: { column: members } }\n")
    .replace(", memberOf: { column: groups }", "")
    .replace("to: analytics", "to: analytics\n    limits: { membershipsLost: none }"),
);

const logins = Array.from({ length: 150 }, (_, index) => String(index + 1));
const group = (id: string, size: number): string => `${id},${id},${logins.slice(0, size).join(";")}\n`;

test("a group that had more members and has 100 now may have been cut by the server", async () => {
  await company.write(
    "people.csv",
    `id,login,name,mail,status\n${logins.map((n) => `${n},p${n},P ${n},,active\n`).join("")}`,
  );
  await company.write("groups.csv", `id,name,members\n${group("all", 150)}${group("some", 30)}`);
  const { stdout: before, stderr } = await company.command("apply", "--yes");
  expect(stderr).not.toContain("rollcall.yaml:");
  expect(before).not.toContain("cut lists of members");
  await company.write("groups.csv", `id,name,members\n${group("all", 100)}${group("some", 30)}`);
  const cut = await company.command("plan");
  expect(cut.stdout).toContain(
    "source company: group all has exactly 100 members and had more; does the server cut lists of members at 100?",
  );
  await company.write("groups.csv", `id,name,members\n${group("all", 149)}${group("some", 30)}`);
  expect((await company.command("plan")).stdout).not.toContain("cut lists of members");
});
