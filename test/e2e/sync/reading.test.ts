import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { UnavailableError } from "#errors.ts";
import { useStaff } from "./staff.ts";

// The target is listed while the sources are read.
const { people, syncOf, runIt, users, folder, create } = useStaff();

test("a read that fails ends the list, however long that would take, and says why", async () => {
  let ended: unknown;
  const sync = syncOf({
    list: (_, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          ended = signal.reason;
          reject(new UnavailableError("the list was ended"));
        });
      }),
  });
  await expect(runIt(sync)).rejects.toThrow("people.csv does not exist");
  expect(ended).toBeDefined();
});

test("a target that cannot be listed fails the run, and a source that fails, too, is what shows", async () => {
  await people("ada");
  const sync = syncOf({ list: () => Promise.reject(new UnavailableError("the target does not answer")) });
  await expect(runIt(sync)).rejects.toThrow("the target does not answer");
  await rm(join(folder(), "people.csv"));
  await expect(runIt(sync)).rejects.toThrow("people.csv does not exist");
  expect(await users()).not.toContain("ada");
});

test("what was listed meanwhile is compared with what was read", async () => {
  await people("ada", "grace");
  expect(await runIt(syncOf())).toMatchObject({ outcome: "applied", counts: { users: { create: 2 } } });
  expect(await runIt(syncOf())).toMatchObject({ outcome: "no change" });
  expect(await users()).toEqual(expect.arrayContaining(["ada", "grace"]));
});

test("whoever is created since the target was listed is not deleted by a plan that deletes nobody", async () => {
  await people("ada");
  const { target } = syncOf();
  const sync: typeof target.sync = async (request, ...rest) => {
    if (request.applyChanges) await create("meanwhile");
    await target.sync(request, ...rest);
  };
  await expect(runIt(syncOf({ sync }))).rejects.toThrow("the target does not match the plan");
  expect(await users()).toEqual(expect.arrayContaining(["ada", "meanwhile"]));
});

test("a run that needs more memory than it may take says which setting to raise, and changes nothing", async () => {
  await people(...Array.from({ length: 20_000 }, (_, i) => `somebody-${i}`));
  await expect(runIt(syncOf(), true, { memory: 8 * 2 ** 20 })).rejects.toThrow(
    "the run needs more memory than it may take: raise memory in the configuration, of the service or of the daemon; it is 8MiB now",
  );
  expect(await users()).not.toContain("somebody-1");
});
