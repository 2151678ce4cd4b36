import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { ObjectStore } from "../../support/object-target.ts";
import { everyThird } from "../../support/random.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";

const module = fileURLToPath(new URL("../../support/object-target.ts", import.meta.url));

const company = companyOfEachTest((yaml) =>
  yaml
    .replace(
      /^service:[^]*?^targets:\n.*\n/m,
      `daemon: { data: data }\ntargets:\n  app: { connector: ${module}, file: objects.json }\n`,
    )
    .replace("to: analytics", "to: app")
    .replace("      mail: entry.mail\n", "      emails: 'has(entry.mail) ? [entry.mail] : []'\n")
    .replace("      name: entry.id\n      displayName: entry.name\n", "      name: entry.id\n")
    .replace(
      / {4}defaultPassword:.*\n/,
      "    deletions: { suspend: never, after: 0 }\n    limits: { deletes: 100% }\n",
    ),
);

const first =
  "id,login,name,mail,status,groups\n1,ada,Ada,ada@x,active,staff;engines\n2,grace,Grace,,active,staff\n3,zoe,Zoe,,active,staff\n";
const second =
  "id,login,name,mail,status,groups\n1,ada,Countess,ada@y,active,staff\n4,joan,Joan,,active,engines\n5,edith,Edith,,active,staff;engines\n";

const stateOf = (store: ObjectStore): object => ({
  users: Object.fromEntries(Object.entries(store.people()).map(([name, { displayName }]) => [name, displayName])),
  groups: store.groups(),
});

const wanted = [
  { users: { ada: "Ada", grace: "Grace", zoe: "Zoe" }, groups: { engines: ["ada"], staff: ["ada", "grace", "zoe"] } },
  {
    users: { ada: "Countess", edith: "Edith", joan: "Joan" },
    groups: { engines: ["edith", "joan"], staff: ["ada", "edith"] },
  },
];

const writes = Array.from({ length: 9 }, (_, index) => index);
const points = [0, 1].flatMap((run) => writes.flatMap((at) => ["before", "after"].map((when) => ({ run, at, when }))));

test.each(everyThird(points))(
  "a process that is killed $when write $at of run $run: the next one writes the rest",
  async ({ run, at, when }) => {
    const file = join(company.folder, "objects.json");
    await rm(file, { force: true });
    await company.configure((yaml) => yaml.replace("objects.json", file));
    await company.write("people.csv", first);
    if (run === 1) {
      expect((await company.command("apply")).code).toBe(0);
      await company.write("people.csv", second);
    }
    const env = { ROLLCALL_TEST_KILL: `${at} ${when}` };
    const { signal } = await startRollcall(["apply", "--config", company.config], { env }).ended;
    const left = await company.command("apply");
    expect(left).toMatchObject({ code: 0 });
    // There are fewer writes than points.
    if (signal === "SIGKILL") expect(left.stdout).toMatch(/applied and verified|no change/);
    const store = new ObjectStore(file);
    expect(stateOf(store)).toEqual(wanted[run]);
    expect(store.twice).toEqual([]);
    expect((await company.command("plan")).code).toBe(0);
  },
);
