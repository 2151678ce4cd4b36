import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml
    .replace("syncs:", "  partner: { connector: csv, users: { file: partner.csv, id: number } }\nsyncs:")
    .concat("  partner: { from: [partner], to: analytics, users: { name: entry.login, displayName: entry.name } }\n"),
);
const partner = "number,login,name\np1,ada,Another Ada\np2,max,Max\n";
beforeEach(() => company.write("partner.csv", partner));

test("a source that never answers keeps no other sync from explaining somebody", async () => {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => sockets.add(socket)).listen(0, "127.0.0.1");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  await once(silent, "listening");
  const hung = `{ connector: http, url: "http://127.0.0.1:${(silent.address() as AddressInfo).port}", users: { url: users, id: id } }`;
  // The first sync of the configuration is the one that waits.
  await company.configure((yaml) =>
    yaml.replace(
      "syncs:",
      `  hr: ${hung}\nsyncs:\n  hired: { from: [hr], to: analytics, users: { name: entry.id, displayName: entry.id } }`,
    ),
  );
  const explaining = company.begin("explain", "ada");
  await explaining.wrote("staff → analytics");
  await explaining.wrote("partner → analytics");
  expect(explaining.output()).not.toContain("hired");
  for (const socket of sockets) socket.destroy();
  silent.close();
  expect(await explaining.ended).toMatchObject({ code: 1, stderr: expect.stringContaining("hired: ") });
});

test("a user belongs to the sync that came first: the other leaves them alone and says so", async () => {
  const { stdout } = await company.command("apply");
  expect(stdout).toMatch(
    /1 record withheld: another sync owns the user of that name.*\n {2}user ada \(partner\.csv:2\)/,
  );
  const again = await company.command("plan");
  expect(again).toMatchObject({ code: 0 });
  const told = await company.command("explain", "ada", "--sync", "partner");
  expect(told.stdout).toContain("user ada: nothing to do, it is left alone: another sync owns it");
  const { explanations } = JSON.parse((await company.command("explain", "ada", "--json")).stdout);
  expect(explanations).toMatchObject([{ sync: "staff" }, { sync: "partner", outcomes: [{ action: "nothing" }] }]);
  await company.write("partner.csv", partner.replace(/^p1.*\n/m, ""));
  expect((await company.command("plan")).code).toBe(0);
});
