import fc from "fast-check";
import { expect, test } from "vitest";
import { resourcesOf } from "#connectors/scim/list.ts";
import type { List, Lists } from "#connectors/scim/list.ts";
import { IncompleteReadError } from "#errors.ts";
import { cases } from "../../../support/random.ts";

/** What happens to the list between two requests. */
type Change = { readonly kind: "insert" | "delete"; readonly at: number };

/** A list of ids that is changed before every request but the first. @param most the most ids of a page */
function serverOf(ids: string[], changes: readonly (readonly Change[])[], most = Infinity): Lists {
  let requests = 0;
  let added = 0;
  return {
    base: new URL("https://idp.example.com/"),
    subject: "source corp",
    signal: new AbortController().signal,
    warn: () => {},
    titleOf: (url) => `source corp: GET ${url.href}`,
    ask: ({ parameters, use }) => {
      for (const { kind, at } of requests++ === 0 ? [] : (changes[requests - 2] ?? [])) {
        const place = ids.length === 0 ? 0 : at % ids.length;
        if (kind === "insert") ids.splice(place, 0, `new ${++added}`);
        else ids.splice(place, 1);
      }
      const start = Number(parameters["startIndex"]) - 1;
      const end = start + Math.min(most, Number(parameters["count"]));
      const list = {
        totalResults: ids.length,
        Resources: ids.slice(start, end).map((id) => ({ id })),
      };
      return use({
        status: 200,
        headers: {},
        socket: undefined,
        close: () => {},
        body: (async function* () {
          yield Buffer.from(JSON.stringify(list));
        })(),
      });
    },
  };
}

const change = fc.record({ kind: fc.constantFrom("insert" as const, "delete" as const), at: fc.nat(40) });

test("delivers everybody who was present throughout, once, whatever changes meanwhile, or fails", async () => {
  let proven = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 25 }),
      fc.integer({ min: 2, max: 6 }),
      fc.array(fc.array(change, { maxLength: 2 }), { maxLength: 6 }),
      async (size, count, changes) => {
        const before = Array.from({ length: size }, (_, index) => `${index}`);
        const ids = [...before];
        const list: List = {
          path: "Users",
          parameters: {},
          idParameters: {},
          paging: { by: "index", count, overlap: true, totals: "exact", attempts: 3 },
        };
        const found: string[] = [];
        try {
          for await (const resources of resourcesOf(serverOf(ids, changes), list)) {
            for (const { id } of resources) found.push(String(id));
          }
        } catch (error) {
          expect(error).toBeInstanceOf(IncompleteReadError);
          return;
        }
        proven++;
        expect(new Set(found).size).toBe(found.length);
        expect(found).toEqual(expect.arrayContaining(before.filter((id) => ids.includes(id))));
      },
    ),
    { numRuns: cases(800) },
  );
  // It is no proof when hardly any read succeeds.
  expect(proven).toBeGreaterThan(200);
});

test("a source is advised to set its paging, and a target, which has no such option, is not", async () => {
  const paging = { by: "index", count: 5, overlap: true, totals: "exact", attempts: 1 } as const;
  const read = async (more: Partial<List["paging"]>): Promise<string> => {
    const list = { path: "Users", parameters: {}, idParameters: {}, paging: { ...paging, ...more } };
    const reading = Array.fromAsync(resourcesOf(serverOf(["1", "2", "3"], [], 1), list));
    return reading.then(
      () => "",
      (error: unknown) => String(error),
    );
  };
  expect(await read({})).toContain("it ends after 1 of 3; a server that gives one at a time needs paging: {");
  const told = await read({ isTargets: true });
  expect(told).toContain("it ends after 1 of 3");
  expect(told).not.toContain("paging");
});
