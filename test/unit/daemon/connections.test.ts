import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import pino from "pino";
import { expect, test } from "vitest";
import { Connections } from "#daemon/connections.ts";
import { loadConfiguration } from "#config/load.ts";
import type { CheckFinding } from "#daemon/connections.ts";
import { connectors } from "#connectors/index.ts";
import { makeCompany, people } from "../../support/rollcall/company.ts";

const ada = { name: "ada", from: "192.0.2.7" };
const secret = "the-password-of-the-target";

test("a check says what `rollcall check` says, one at a time, and never a secret of the configuration", async () => {
  const company = await makeCompany((yaml) =>
    yaml
      .replace("embedded", `{ url: "https://127.0.0.1:1", username: sync, password: ${secret} }`)
      .replace("syncs:", "  unused: { connector: csv, users: { file: people.csv, id: id } }\nsyncs:"),
  );
  await writeFile(join(company.folder, "people.csv"), people.replace("Ada Lovelace", secret));
  const configuration = await loadConfiguration(company.config, { connectors });
  const connections = new Connections({
    current: () => configuration,
    embedded: { access: () => Promise.reject(new Error("there is none")), close: async () => {} },
    log: pino({ enabled: false }),
  });
  const states: string[] = [];
  connections.subscribe(() => {
    const waits = connections.checked("source", "unused");
    if (waits !== undefined && waits.findings === undefined)
      states.push(waits.progress === undefined ? "waits" : "runs");
  });
  connections.check("sync", "staff", ada);
  connections.check("source", "unused", ada);
  // The one that is under way goes on.
  connections.check("sync", "staff", { name: "eve", from: "192.0.2.8" });
  const found = async (what: "sync" | "source", name: string): Promise<readonly CheckFinding[]> => {
    await expect.poll(() => connections.checked(what, name)?.findings).toBeDefined();
    return connections.checked(what, name)?.findings ?? [];
  };
  const staff = await found("sync", "staff");
  expect(staff).toMatchObject([
    { what: "source", name: "company", headline: "4 users, 2 groups" },
    { what: "sync", name: "staff", headline: "3 users, 2 groups, 1 excluded, 0 quarantined" },
  ]);
  expect(staff[1]?.principals).toHaveLength(3);
  expect(connections.checked("sync", "staff")).toMatchObject({ by: "ada", milliseconds: expect.any(Number) });
  expect(await found("source", "unused")).toMatchObject([{ headline: "4 users, 0 groups", principals: [] }]);
  expect(states).toEqual(expect.arrayContaining(["waits", "runs"]));
  expect(states.indexOf("waits")).toBeLessThan(states.indexOf("runs"));

  connections.check("sync", "gone", ada);
  expect(await found("sync", "gone")).toMatchObject([
    { error: { message: "no sync is called gone: the configuration has staff", advice: "fix" } },
  ]);
  expect(JSON.stringify(staff)).not.toContain(secret);
  expect(staff[1]?.principals).toContainEqual(expect.objectContaining({ name: "ada", displayName: "***" }));
  expect(JSON.stringify(connections.targets())).toBe('[{"name":"analytics","address":"https://127.0.0.1:1"}]');
  await connections.close();
  // From now on nothing begins.
  connections.check("target", "analytics", ada);
  expect(connections.checked("target", "analytics")).toBeUndefined();
  await company.remove();
});
