import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import type { Connector } from "#connector.ts";
import { People } from "#daemon/people.ts";
import type { PeopleOptions } from "#daemon/people.ts";
import { UnavailableError } from "#errors.ts";
import { createKeyedQueue } from "#queue.ts";
import objects from "../../support/object-target.ts";
import { builtIn, load } from "../config/support.ts";

test("one explanation asks several sources at a time, and holds up neither another target nor a run", async () => {
  const [reached, answer, stopped] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ];
  let reads = 0;
  const place = z.strictObject({ answers: z.enum(["now", "late", "never", "hangs"]) });
  const list: Connector = {
    name: "list",
    options: place,
    open: (options) => ({
      async *read({ signal }) {
        const { answers } = place.parse(options);
        if (answers === "hangs") {
          await once(signal, "abort");
          stopped.resolve();
          signal.throwIfAborted();
        }
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
  third: { connector: objects, file: ${join(data, "third")} }
sources:
  quick: { connector: list, answers: now }
  slow: { connector: list, answers: late }
  dead: { connector: list, answers: never }
  hung: { connector: list, answers: hangs }
syncs:
  first: { from: [dead], to: app, users: &users { name: entry.id } }
  second: { from: [slow], to: app, users: *users }
  third: { from: [slow], to: app, users: *users }
  fourth: { from: [quick], to: app, users: *users }
  elsewhere: { from: [quick], to: other, users: *users }
  waiting: { from: [hung], to: third, users: *users }
  answering: { from: [quick], to: third, users: *users }
`,
    { connectors: [builtIn(list)], targetConnectors: [{ name: "objects", load: async () => objects }] },
  );
  const inTurn = createKeyedQueue();
  const options = {
    current: () => configuration,
    coordinator: () => ({ inTurn, runs: () => [] }),
    warn: () => {},
    patience: 50,
  };
  const people = new People(options as unknown as PeopleOptions);
  const explain = async (target: string) => {
    let known = await people.explain(target, "ada");
    while (known?.answers.some((each) => "sources" in each) === true)
      known = await people.explain(target, "ada", known.since);
    return known?.answers;
  };
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

  // What is known is told at once, and further answers are those of the same explanation, until nobody asks any more.
  const told = await people.explain("third", "ada");
  expect(told?.answers[0]).toMatchObject({ sync: "waiting", sources: ["hung"] });
  await expect
    .poll(async () => (await people.explain("third", "ada", told?.since))?.answers)
    .toMatchObject([
      { sync: "waiting", stage: "read" },
      { sync: "answering", outcomes },
    ]);
  expect((await people.explain("third", "ada"))?.since).toBe(told?.since);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  await people.explain("third", "ada", told?.since);
  vi.advanceTimersByTime(15_000);
  vi.useRealTimers();
  await stopped.promise;
  expect(await people.explain("third", "ada", told?.since)).toBeUndefined();
  await people.close();
});
