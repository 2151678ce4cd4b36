import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Connector } from "#connector.ts";
import { People } from "#daemon/people.ts";
import type { PeopleOptions } from "#daemon/people.ts";
import { UnavailableError } from "#errors.ts";
import { createKeyedQueue } from "#queue.ts";
import objects from "../../support/object-target.ts";
import { builtIn, load } from "../config/support.ts";

test("one explanation asks several sources at a time, and holds up neither another target nor a run", async () => {
  const [reached, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let reads = 0;
  const place = z.strictObject({ answers: z.enum(["now", "late", "never"]) });
  const list: Connector = {
    name: "list",
    options: place,
    open: (options) => ({
      async *read() {
        const { answers } = place.parse(options);
        if (answers !== "now") {
          if (++reads === 2) reached.resolve();
          await answer.promise;
        }
        if (answers === "never") throw new UnavailableError("nobody answers");
        yield [
          { kind: "user", id: "ada", origin: "list", attributes: { id: "ada" }, keys: [], memberOf: [], members: [] },
        ];
      },
    }),
  };
  const data = await mkdtemp(join(tmpdir(), "rollcall-people-"));
  onTestFinished(() => rm(data, { recursive: true }));
  const { configuration } = await load(
    `
daemon: { data: ${data} }
targets:
  app: { connector: objects, file: ${join(data, "app")} }
  other: { connector: objects, file: ${join(data, "other")} }
sources:
  quick: { connector: list, answers: now }
  slow: { connector: list, answers: late }
  dead: { connector: list, answers: never }
syncs:
  first: { from: [dead], to: app, users: &users { name: entry.id } }
  second: { from: [slow], to: app, users: *users }
  third: { from: [slow], to: app, users: *users }
  fourth: { from: [quick], to: app, users: *users }
  elsewhere: { from: [quick], to: other, users: *users }
`,
    { connectors: [builtIn(list)], targetConnectors: [{ name: "objects", load: async () => objects }] },
  );
  const inTurn = createKeyedQueue();
  const options = { current: () => configuration, coordinator: () => ({ inTurn, runs: () => [] }), warn: () => {} };
  const people = new People(options as unknown as PeopleOptions);
  const explain = (target: string) => people.explain(target, "ada", new AbortController().signal);
  const slow = explain("app");
  await reached.promise;
  expect(await explain("other")).toMatchObject([{ sync: "elsewhere", outcomes: [{ action: "create" }] }]);
  await inTurn(`objects ${join(data, "app")}`, async () => {});
  answer.resolve();
  const outcomes = [{ name: "ada", action: "create" }];
  expect(await slow).toMatchObject([
    { sync: "first", error: { message: expect.stringContaining("nobody answers") } },
    { sync: "second", outcomes },
    { sync: "third", outcomes },
    { sync: "fourth", outcomes },
  ]);
  await people.close();
});
