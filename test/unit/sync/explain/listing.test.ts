import { Attributes, serviceAttributes } from "#principals/attributes.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Principal } from "#principals/principal.ts";
import { openFolderReader } from "#state/folder/store.ts";
import { Listings } from "#sync/explain/listing.ts";
import type { Listing } from "#sync/explain/listing.ts";
import type { ListTarget, ObjectTarget, Target } from "#connector.ts";
import { principalTypes } from "#wire/administration.ts";
import { attributesOfObjects, objectTarget, ObjectStore } from "../../../support/object-target.ts";
import { cases } from "../../../support/random.ts";
import { directory } from "../../plan/directories.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-listing-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What a target with these principals lists. */
async function withListing(principals: readonly Principal[], work: (listing: Listing) => Promise<void>): Promise<void> {
  const target: Pick<ListTarget, "list" | "close"> = {
    list: async (read) => {
      const list = principals.map(({ kind, ...rest }) => ({ ...rest, principalTypeEnum: principalTypes[kind] }));
      await read(Readable.from([Buffer.from(JSON.stringify(list))]));
      return undefined;
    },
    close: async () => {},
  };
  await withTarget(target as ListTarget, serviceAttributes, work);
}

async function withTarget(
  target: Target,
  declared: Attributes,
  work: (listing: Listing) => Promise<void>,
): Promise<void> {
  const listings = new Listings({
    folder,
    state: async () => openFolderReader(folder, () => false),
    memory: 2 ** 28,
    open: async () => ({ target, declared, place: "here", syncs: [] }),
    inTurn: async (_place, read) => read(),
    patience: 60_000,
  });
  try {
    await listings.read("here", { since: 0 }, work);
  } finally {
    await listings.close();
  }
}

const keyOf = ({ kind, name }: Pick<Principal, "kind" | "name">): string => `${kind}:${name}`;
const folded = (text: string): string => text.normalize("NFC").toLowerCase();
const inOrder = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Everybody whose memberships lead to a group, however far. */
function membersOf(group: string, principals: readonly Principal[]): Set<string> {
  const groups = new Set([group]);
  for (let size = 0; size !== groups.size;) {
    size = groups.size;
    for (const { kind, name, groupNames } of principals)
      if (kind === "group" && groupNames.some((each) => groups.has(each))) groups.add(name);
  }
  return new Set(principals.filter(({ groupNames }) => groupNames.some((each) => groups.has(each))).map(keyOf));
}

test("search and members are what a simple reading of the list says, page by page", async () => {
  const text = fc.constantFrom("", "a", "AD", "o'", "@", "nobody", "7", "É");
  const group = fc.constantFrom("ada", "bob", "o'neil", "__proto__", "7");
  const window = fc.record({ offset: fc.nat(4), limit: fc.integer({ min: 1, max: 4 }) });
  await fc.assert(
    fc.asyncProperty(directory, text, group, window, fc.boolean(), async (principals, text, group, window, nested) => {
      await withListing(principals, async (listing) => {
        const sought = folded(text);
        const found = principals
          .filter((each) =>
            [each.name, each.displayName, each.mail ?? ""].some((value) => folded(value).includes(sought)),
          )
          .map((each) => ({ ...each, key: folded(each.name) }))
          .toSorted(
            (a, b) =>
              (sought === "" ? 0 : rankOf(a.key, sought) - rankOf(b.key, sought)) ||
              inOrder(a.kind, b.kind) ||
              inOrder(a.key, b.key) ||
              inOrder(a.name, b.name),
          );
        const page = await listing.search(text, undefined, window);
        expect(page.count).toBe(found.length);
        expect(page.rows.map(keyOf)).toEqual(
          found.slice(window.offset, window.offset + window.limit).map((each) => keyOf(each)),
        );
        for (const { kind, name, members } of page.rows)
          expect(members).toBe(
            kind === "group" ? principals.filter(({ groupNames }) => groupNames.includes(name)).length : undefined,
          );
        expect((await listing.search(text, "group", window)).count).toBe(
          found.filter(({ kind }) => kind === "group").length,
        );

        const all = membersOf(group, principals);
        const direct = principals.filter(({ groupNames }) => groupNames.includes(group)).map(keyOf);
        const members = await listing.members(group, { nested, offset: 0, limit: 100 });
        expect(new Set(members.rows.map(keyOf))).toEqual(nested ? all : new Set(direct));
        expect(members.count).toBe(members.rows.length);
        expect(
          members.rows
            .filter(({ isDirect }) => isDirect)
            .map(keyOf)
            .toSorted(),
        ).toEqual(direct.toSorted());
        expect(members.rows.map(({ kind }) => kind)).toEqual(members.rows.map(({ kind }) => kind).toSorted());
        // Another group in between, and the same again: what is kept is that of the group.
        await listing.members("ada", { nested: true, offset: 0, limit: 1 });
        const rest = await listing.members(group, { nested, ...window });
        expect(rest).toEqual({
          count: members.count,
          rows: members.rows.slice(window.offset, window.offset + window.limit),
        });
      });
    }),
    { numRuns: cases(15) },
  );
});

test("of a target that is read as objects, all that it has is listed, whatever rules give", async () => {
  const store = new ObjectStore();
  store.add("user", "ada", { title: "Countess" });
  const objects = objectTarget(store);
  const target: ObjectTarget = {
    ...objects,
    read: (context) => {
      // It would refuse those that it does not have.
      expect(context.attributes).toBeUndefined();
      return objects.read(context);
    },
  };
  await withTarget(target, new Attributes(attributesOfObjects), async (listing) => {
    expect((await listing.search("ada", undefined, { offset: 0, limit: 9 })).rows.map(({ name }) => name)).toEqual([
      "ada",
    ]);
  });
});

function rankOf(name: string, sought: string): number {
  return name === sought ? 0 : name.startsWith(sought) ? 1 : 2;
}

test("whoever does not want to wait for a target that does not answer is told at once", async () => {
  const [asked, answers] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const target = {
    list: async (): Promise<undefined> => {
      asked.resolve();
      await answers.promise;
      throw new Error("no answer");
    },
    close: async () => {},
  } as unknown as ListTarget;
  const listings = new Listings({
    folder,
    state: async () => openFolderReader(folder, () => false),
    memory: 2 ** 28,
    open: async () => ({ target, declared: serviceAttributes, place: "here", syncs: [] }),
    inTurn: async (_place, read) => read(),
    patience: 60_000,
  });
  try {
    expect(await listings.read("here", { since: 0, patience: 0 }, async () => "listed")).toBeUndefined();
    await asked.promise;
    expect(await listings.read("here", { since: 0, patience: 0 }, async () => "listed")).toBeUndefined();
    answers.resolve();
    await expect(listings.read("here", { since: 0 }, async () => "listed")).rejects.toThrow("no answer");
  } finally {
    answers.resolve();
    await listings.close();
  }
});

test("a target that does not answer does not hold up the list of another", async () => {
  const unanswered: ObjectTarget = {
    ...objectTarget(new ObjectStore()),
    async *read({ signal }) {
      yield await new Promise<never>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    },
  };
  const listings = new Listings({
    folder,
    state: async () => openFolderReader(folder, () => false),
    memory: 2 ** 28,
    open: async (name) => ({
      target: name === "silent" ? unanswered : objectTarget(new ObjectStore()),
      declared: new Attributes(attributesOfObjects),
      place: name,
      syncs: [],
    }),
    inTurn: async (_place, read) => read(),
    patience: 60_000,
  });
  const count = (listing: Listing) => listing.counts("");
  expect(await listings.read("silent", { since: 0, patience: 0 }, count)).toBeUndefined();
  expect(await listings.read("app", { since: 0 }, count)).toEqual({ user: 0, group: 0 });
  await listings.close();
});
