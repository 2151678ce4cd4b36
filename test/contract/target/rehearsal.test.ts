import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTarget } from "#client/target.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import { RehearsalTarget } from "#sync/drill/target.ts";
import { listToFile } from "#sync/planning/target.ts";
import type { ListTarget } from "#connector.ts";
import { syncResult } from "#wire/administration.ts";
import { cases } from "../../support/random.ts";
import { administrator, startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";
import { defaultPassword, soon } from "./harness.ts";

let service: TestService;
let folder: string;

beforeAll(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), "rollcall-rehearsal-"));
});

afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true });
});

const credentials = { username: administrator.name, password: administrator.password };
const groups = ["staff", 'eng, "neers"', "Zoë"];
const principals = fc.record({
  users: fc.uniqueArray(
    fc.record({
      name: fc.constantFrom("ada", "Änne", "b o'b", "grace", "u|5"),
      displayName: fc.constantFrom("One", "Two"),
      mail: fc.constantFrom(undefined, "x@example.com"),
      groupNames: fc.subarray(groups),
    }),
    { selector: ({ name }) => name },
  ),
  descriptions: fc.array(fc.constantFrom("", "here"), { minLength: groups.length, maxLength: groups.length }),
});

/** The list of a daemon: what the service always keeps is in it. */
async function listWith(
  kept: string,
  { users, descriptions }: typeof principals extends fc.Arbitrary<infer T> ? T : never,
) {
  const always = (JSON.parse(await readFile(kept, "utf8")) as { readonly name: string }[]).filter(({ name }) =>
    ["admin", "Administrator", "All"].includes(name),
  );
  return JSON.stringify([
    ...users.map((user) => ({ ...user, principalTypeEnum: "LOCAL_USER" })),
    ...groups.map((name, index) => ({
      name,
      displayName: name,
      description: descriptions[index],
      principalTypeEnum: "LOCAL_GROUP",
      groupNames: [],
    })),
    ...always,
  ]);
}

test("the target of a rehearsal previews and applies what the service does", async () => {
  const workbench = await Workbench.open({ folder: join(folder, "work"), memory: 256 * 2 ** 20 });
  const real = openTarget({ name: "analytics", url: service.url, prefix: "", credentials });
  const file = (name: string): string => join(folder, name);
  const answerOf = async (path: string): Promise<unknown> => {
    const answer = syncResult.parse(JSON.parse(await readFile(path, "utf8")));
    return Object.fromEntries(Object.entries(answer).map(([array, names]) => [array, names.toSorted()]));
  };
  const listOf = async (path: string): Promise<unknown> => {
    const list = JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>[];
    return list
      .map(({ name, displayName, description, mail, principalTypeEnum, groupNames }) =>
        JSON.stringify([principalTypeEnum, name, displayName, description ?? "", mail ?? "", groupNames]),
      )
      .sort();
  };
  try {
    await listToFile(real, file("state.json"), soon());
    const rehearsed: ListTarget = new RehearsalTarget(workbench, {
      name: "rehearsed",
      declared: serviceAttributes,
      state: file("state.json"),
    });
    await copyFile(file("state.json"), file("kept.json"));
    await fc.assert(
      fc.asyncProperty(principals, fc.boolean(), async (wanted, deleteOthers) => {
        await writeFile(file("list.json"), await listWith(file("kept.json"), wanted));
        for (const applyChanges of [false, true]) {
          const request = { principals: file("list.json"), applyChanges, deleteOthers, defaultPassword };
          await real.sync(request, file("real.json"), soon());
          await rehearsed.sync(request, file("rehearsed.json"), soon());
          expect(await answerOf(file("rehearsed.json"))).toEqual(await answerOf(file("real.json")));
          await listToFile(real, file("real.json"), soon());
          await listToFile(rehearsed, file("rehearsed.json"), soon());
          expect(await listOf(file("rehearsed.json"))).toEqual(await listOf(file("real.json")));
        }
      }),
      { numRuns: cases(8) },
    );
  } finally {
    await real.close();
    await workbench.close();
  }
});
