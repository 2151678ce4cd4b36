import { appendFile, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { beforeEach, expect, test } from "vitest";
import { exists } from "#files/disk.ts";
import { byHand, directoryOf } from "../e2e/sync/coordinated.ts";
import { useStaff } from "../e2e/sync/staff.ts";
import type { StaffSync } from "../e2e/sync/staff.ts";

// A run lists the target, and has the service preview a plan without changes, only where no run before has agreed with the
// service on that list.
const staff = useStaff();
const { people, folder, service } = staff;
const lists = (): string => join(folder(), "daemon", "lists");
const day = 86_400_000;

/** What the target is asked for. */
let asked: string[];
let listing: StaffSync;

beforeEach(async () => {
  asked = [];
  const { target } = staff.syncOf();
  listing = staff.syncOf({
    list: (read, signal) => {
      asked.push("list");
      return target.list(read, signal);
    },
    sync: (request, destination, signal) => {
      asked.push(request.applyChanges ? "apply" : "preview");
      return target.sync(request, destination, signal);
    },
  });
  await people("ada", "grace");
  const first = await next();
  if (first !== "applied: list, preview, apply, list") throw new Error(`the first run: ${first}`);
});

/** How a run ends, and what it asks the target for. */
async function next(sync = listing, apply = true, now = Date.now()): Promise<string> {
  asked = [];
  const { outcome } = await staff.runIt(sync, apply, { now });
  return [outcome, asked.join(", ")].filter((part) => part !== "").join(": ");
}

test("the list that a run leaves is not read again, and the service is not asked for its opinion on it", async () => {
  expect(await next(listing, false)).toBe("no change");
  expect(await next()).toBe("no change");
  expect(await next(listing, false)).toBe("no change");

  // Changes are previewed, and what the target has in the end is listed.
  await people("ada", "grace", "edith");
  expect(await next(listing, false)).toBe("planned: preview");
  expect(await next()).toBe("applied: preview, apply, list");
  await people("ada", "grace");
  expect(await next()).toBe("applied: preview, apply, list");
  expect(await staff.users()).toEqual(["ada", "admin", "grace"]);
  expect(await next()).toBe("no change");
});

test("what somebody else has changed is seen", async () => {
  await next();
  await byHand(service().url, { name: "ada", displayName: "Countess", principalTypeEnum: "LOCAL_USER" });
  expect(await next(listing, false)).toBe("planned: list, preview");
  expect(await next()).toBe("applied: list, preview, apply, list");
  expect(await directoryOf(service().url)).not.toContain("Countess");
  await staff.create("local");
  expect(await next()).toBe("no change: list, preview");
  expect(await next()).toBe("no change");
});

test("principals of other types and fields of the target's own go back from a list that is stored as from one that is read", async () => {
  const others = '{"name":"ldap","displayName":"ldap","principalTypeEnum":"LDAP_USER","groupNames":[]},';
  const sent: string[] = [];
  const { target } = listing;
  const richer: StaffSync = {
    ...listing,
    target: {
      ...target,
      list: (read, signal) =>
        target.list(async (bytes) => {
          const list = await text(bytes);
          const more = list.replace("[", `[${others}`).replace('"name":"ada"', '"limit":1.50,$&');
          await read(Readable.from([Buffer.from(more)]));
        }, signal),
      sync: async (request, destination, signal) => {
        const list = await readFile(request.principals, "utf8");
        sent.push(list);
        // The service knows no other types.
        const principals = `${request.principals}.known`;
        await writeFile(principals, list.replace(/,?\s*\{"name":"ldap".*?\}/s, ""));
        await target.sync({ ...request, principals }, destination, signal);
      },
    },
  };
  await rm(lists(), { recursive: true });
  expect(await next(richer)).toBe("no change: list, preview");
  await people("ada", "grace", "edith");
  expect(await next(richer)).toBe("applied: preview, apply, list");
  await people("ada", "edith");
  expect(await next(richer)).toBe("applied: preview, apply, list");
  expect(sent).toHaveLength(5);
  for (const each of sent) {
    expect(each).toContain('"limit":1.50');
    expect(each).toContain('"LDAP_USER"');
  }
});

test("the target is listed once a day, and where what is stored cannot be used", async () => {
  const listed = "no change: list, preview";
  const at = Date.now();
  await next();
  expect(await next()).toBe("no change");
  expect(await next(listing, true, at + day)).toBe(listed);
  // From the future.
  expect(await next(listing, true, at)).toBe(listed);
  expect(await next({ ...listing, target: { ...listing.target, isStill: undefined } })).toBe(listed);
  expect(await next({ ...listing, place: "elsewhere" })).toBe(listed);
  expect(await next()).toBe(listed);
  const stored = (await readdir(lists())).find((name) => !name.endsWith(".json"));
  await appendFile(join(lists(), stored ?? "", "actual_extra.parquet"), "x");
  expect(await next()).toBe(listed);
  expect(await next()).toBe("no change");
});

test("a target that says wrongly that its list has not changed is listed again after its preview differs", async () => {
  const wrong: StaffSync = { ...listing, target: { ...listing.target, isStill: async () => true } };
  await staff.create("local");
  await people("ada", "grace", "edith");
  await expect(next(wrong)).rejects.toThrow("the service's preview differs from the plan");
  expect(asked).toEqual(["preview"]);
  expect(await next(wrong)).toBe("applied: list, preview, apply, list");
  expect(await next(wrong)).toBe("no change");
});

test("a dry run stores nothing, and a list that cannot be stored is read again", async () => {
  await rm(lists(), { recursive: true });
  expect(await next(listing, false)).toBe("no change: list, preview");
  expect(await exists(lists())).toBe(false);
  await writeFile(lists(), "");
  const warnings: string[] = [];
  const { outcome } = await staff.runIt(listing, true, { warn: (message) => warnings.push(message) });
  expect(outcome).toBe("no change");
  expect(warnings).toEqual([expect.stringMatching(/^the next run lists the target again: .*daemon/)]);
  expect(await next()).toBe("no change: list, preview");
});
