import { expect, test } from "vitest";
import { startForeignTarget } from "../../support/foreign-target.ts";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const { command, configure, write } = companyOfEachTest();

test("leaving lists who is gone from the sources, as the last runs left it, and when they are deleted", async () => {
  const target = await startForeignTarget([]);
  try {
    await configure(
      (yaml) =>
        `${yaml.replace("analytics: embedded", `analytics: { url: "${target.url}", username: admin, password: secret }`)}    deletions: { after: 30d }\n`,
    );
    expect(await command("leaving")).toMatchObject({
      code: 0,
      stdout: "staff → analytics: nobody is in grace or suspended\n",
    });
    expect((await command("apply")).code).toBe(0);
    await write("people.csv", people.replace(/^1,.*\n/m, ""));
    expect((await command("apply")).code).toBe(0);
    const found = await command("leaving", "staff");
    expect(found.code).toBe(0);
    expect(found.stdout).toMatch(/^staff → analytics: 1 user gone from the sources\n/);
    expect(found.stdout).toMatch(/user +ada +\d{4}-\S+ \S+ +in grace +deleted on \d{4}-\d\d-\d\d/);
    const { leaving } = JSON.parse((await command("leaving", "--json")).stdout);
    expect(leaving).toEqual([
      {
        sync: "staff",
        target: "analytics",
        leavers: [
          {
            kind: "user",
            name: "ada",
            since: expect.stringMatching(/Z$/),
            stage: "grace",
            deletedOn: expect.stringMatching(/Z$/),
          },
        ],
      },
    ]);
    const [{ since, deletedOn }] = leaving[0].leavers;
    expect(Date.parse(deletedOn) - Date.parse(since)).toBe(30 * 86_400_000);
    expect((await command("leaving", "--csv")).stdout).toMatch(
      /^\uFEFF"sync","kind","name","since","stage","suspendedOn","deletedOn"\n"staff","user","ada",/,
    );
  } finally {
    await target.close();
  }
});
