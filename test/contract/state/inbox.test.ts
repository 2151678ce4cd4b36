import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { TakenError } from "#state/inbox/resources.ts";
import type { Document } from "#state/inbox/resources.ts";
import { pushedSince } from "#state/inbox/status.ts";
import type { InboxWriter } from "#state/inbox/writer.ts";
import { spawnProgram } from "../../support/process.ts";
import { kinds, storeOfEachTest } from "./stores.ts";
import type { Pushing } from "./pushing.ts";

/** What was pushed to the inbox of a source, wherever it is stored. */

const at = 1_000;
const push = { at, token: "t1" };
const user = (userName: string, more: Document = {}): Document => ({ userName, active: true, ...more });

describe.each(kinds)("the inboxes in: %s", (kind) => {
  const stores = storeOfEachTest(kind);

  test("one to which nothing was pushed is empty, for a reader too", async () => {
    const store = await stores.open();
    const reader = await stores.reader();
    for (const { inboxes } of [store, reader]) {
      expect(
        await inboxes.read("okta", async (inbox) => [
          await inbox.activity(),
          await inbox.count("user"),
          await inbox.page("user", { limit: 10 }),
          await inbox.members("g", { limit: 10 }),
          await inbox.counts(0),
        ]),
      ).toEqual([{ revision: 0 }, 0, [], [], {}]);
    }
    await store.inboxes.change("okta", push, (inbox) => inbox.create("user", "1", user("ada")));
    expect(await reader.inboxes.read("okta", (inbox) => inbox.count("user"))).toBe(1);
    expect(await reader.inboxes.read("other source/ä", (inbox) => inbox.count("user"))).toBe(0);
  });

  test("users are found by id and by what providers ask for, and come back as they were", async () => {
    const { inboxes } = await stores.open();
    const long = "ß".repeat(1_000);
    const odd = user("Zoë\u0000\ud800", {
      displayName: long,
      externalId: "#1",
      site: { __proto__: null, a: [1.5, null] },
    });
    await inboxes.change("okta", push, async (inbox) => {
      const stored = { id: "1", kind: "user", number: 1, version: 1, created: at, changed: at, document: odd };
      expect(await inbox.create("user", "1", odd)).toEqual(stored);
      expect(await inbox.find("user", "1")).toEqual(stored);
    });
    const idsBy = (key: "userName" | "displayName" | "externalId", value: string): Promise<string[]> =>
      inboxes.read("okta", async (inbox) => (await inbox.findBy("user", key, value)).map(({ id }) => id));
    expect(await idsBy("userName", "ZOË\u0000\ud800")).toEqual(["1"]);
    expect(await idsBy("displayName", long)).toEqual(["1"]);
    expect(await idsBy("displayName", `${long}ß`)).toEqual([]);
    expect(await idsBy("externalId", "#1")).toEqual(["1"]);
    expect(await idsBy("externalId", "1")).toEqual([]);
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.find("group", "1")).toBeUndefined();
      expect(await inbox.find("user", "2")).toBeUndefined();
    });
  });

  test("of pushes at one time, none that is written later is earlier, unless the clock was set back", async () => {
    const { inboxes } = await stores.open();
    const activity = () => inboxes.read("okta", (inbox) => inbox.activity());
    const pushAt = (when: number, id: string): Promise<unknown> =>
      inboxes.change("okta", { at: when, token: "t1" }, (inbox) => inbox.create("user", id, user(id)));
    await pushAt(100_000, "1");
    await pushAt(99_990, "2");
    expect(await activity()).toMatchObject({ first: 100_000, last: 100_000 });
    // What is pushed since that time was not read by who has read everything until then.
    expect(await inboxes.read("okta", (inbox) => inbox.counts(100_000))).toEqual({ created: 2 });
    await pushAt(39_999, "3");
    expect(await activity()).toMatchObject({ last: 39_999 });
  });

  test("what is lost counts with whose token took it, until it comes back; after a pause it has settled", async () => {
    const { inboxes } = await stores.open();
    const change = (when: number, token: string, work: (inbox: InboxWriter) => Promise<unknown>): Promise<unknown> =>
      inboxes.change("okta", { at: when, token }, work);
    const switched = async (inbox: InboxWriter, id: string, active: boolean): Promise<void> => {
      const stored = await inbox.find("user", id);
      if (stored !== undefined) await inbox.replace(stored, { ...stored.document, active });
    };
    const ids = ["1", "2", "3", "4"];
    await change(1_000, "t1", async (inbox) => {
      for (const id of ids) await inbox.create("user", id, user(`user ${id}`));
      await inbox.create("group", "g", { displayName: "g" });
      await inbox.addMembers(
        "g",
        [...ids, "nobody"].map((id) => ({ id })),
      );
    });
    await change(2_000, "t1", async (inbox) => {
      await switched(inbox, "1", false);
      await switched(inbox, "2", false);
      expect(inbox.takes).toBe(true);
    });
    await change(2_500, "t2", (inbox) => switched(inbox, "3", false));
    await change(3_000, "t2", async (inbox) => {
      await switched(inbox, "2", true);
      expect(inbox.takes).toBe(false);
      await inbox.removeMembers("g", ["1", "2"]);
      await inbox.addMembers("g", [{ id: "2" }]);
    });
    await change(4_000, "t1", (inbox) => inbox.remove("user", "4"));
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.lost(1_000)).toEqual([
        { loss: "deletions", of: "users", by: [{ token: "t1", amount: 1 }], base: 4 },
        {
          loss: "deactivations",
          of: "users",
          by: [
            { token: "t1", amount: 1 },
            { token: "t2", amount: 1 },
          ],
          base: 3,
        },
        { loss: "membershipsLost", of: "memberships", by: [{ token: "t2", amount: 1 }], base: 4 },
      ]);
      expect(await inbox.lost(4_000)).toEqual([]);
      expect([await inbox.restored(2_500), await inbox.restored(1_000)]).toEqual([1, 0]);
      expect(await inbox.strayMembers()).toBe(1);
      // Since 2,000 no pause was longer than 999; before that there was one.
      expect(await inbox.restlessSince(1_001, 4_500)).toBe(1_000);
      expect(await inbox.restlessSince(1_000, 4_500)).toBe(4_000);
      expect(await inbox.restlessSince(501, 4_501)).toBeUndefined();
      // The clock was set back: nothing is on its way.
      expect(await inbox.restlessSince(1_000, -56_000)).toBe(4_000);
      expect(await inbox.restlessSince(1_000, -56_001)).toBeUndefined();
      expect(Math.abs((await inbox.now()) - Date.now())).toBeLessThan(60_000);
    });
    await change(9_000, "t1", (inbox) => inbox.create("user", "5", user("late")));
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.firstCycleEnd(5_000)).toBe(6_000);
      expect(await inbox.firstCycleEnd(8_001)).toBe(17_001);
    });
    expect(await inboxes.read("other", (inbox) => inbox.firstCycleEnd(1))).toBeUndefined();
  });

  test("losses that a person let pass while the clock was ahead are not those after it was set back", async () => {
    const { inboxes } = await stores.open();
    const settings = { brakes: { window: 1_000, deletions: { count: 0 } }, firstCycle: 0 };
    const lost = (accepted: number): Promise<readonly number[]> =>
      inboxes.read("okta", async (inbox) =>
        (await pushedSince(inbox, settings, { read: accepted, accepted }, 2_500)).losses.map((each) => each.lost),
      );
    await inboxes.change("okta", push, async (inbox) => {
      for (const id of ["1", "2", "3"]) await inbox.create("user", id, user(id));
    });
    await inboxes.change("okta", { ...push, at: 90_000 }, (inbox) => inbox.remove("user", "1"));
    expect([await lost(1_000), await lost(90_000)]).toEqual([[1], []]);
    await inboxes.change("okta", { ...push, at: 2_000 }, (inbox) => inbox.remove("user", "2"));
    expect(await lost(90_000)).toEqual([2]);
  });

  test("users are found by each of their addresses", async () => {
    const { inboxes } = await stores.open();
    const idsBy = (address: string): Promise<string[]> =>
      inboxes.read("okta", async (inbox) => (await inbox.findBy("user", "emails", address)).map(({ id }) => id));
    const ada = user("ada", {
      emails: [{ value: "ADA@x.example", type: "work" }, "ada@home.example", { type: "home" }],
    });
    await inboxes.change("okta", push, async (inbox) => {
      const stored = await inbox.create("user", "1", ada);
      await inbox.create(
        "user",
        "2",
        user("grace", { emails: [{ value: "ada@x.example" }, { value: "Ada@x.example" }] }),
      );
      await inbox.replace(stored, { ...ada, title: "Countess" });
    });
    expect(await idsBy("ada@X.example")).toEqual(["1", "2"]);
    expect(await idsBy("ada@home.example")).toEqual(["1"]);
    await inboxes.change("okta", push, async (inbox) => {
      const stored = await inbox.find("user", "1");
      await inbox.replace(stored!, { ...ada, emails: [{ value: "countess@x.example" }] });
      await inbox.remove("user", "2");
    });
    expect(await idsBy("ada@x.example")).toEqual([]);
    expect(await idsBy("countess@x.example")).toEqual(["1"]);
  });

  test("a userName is given once, without case; names of groups may repeat", async () => {
    const { inboxes } = await stores.open();
    await inboxes.change("okta", push, async (inbox) => {
      await inbox.create("user", "1", user("ada"));
      await inbox.create("user", "2", user("grace"));
      await inbox.create("group", "3", { displayName: "staff" });
      await inbox.create("group", "4", { displayName: "staff" });
    });
    const taken = [
      inboxes.change("okta", push, (inbox) => inbox.create("user", "5", user("ADA"))),
      inboxes.change("okta", push, async (inbox) => {
        await inbox.create("user", "6", user("edsger"));
        const grace = await inbox.find("user", "2");
        await inbox.replace(grace!, user("Ada"));
      }),
    ];
    await Promise.all(taken.map((each) => expect(each).rejects.toBeInstanceOf(TakenError)));
    await inboxes.change("okta", push, async (inbox) => {
      const ada = await inbox.find("user", "1");
      expect(await inbox.replace(ada!, user("ADA"))).toMatchObject({ version: 2, document: user("ADA") });
      expect(await inbox.count("user")).toBe(2);
      expect(await inbox.findBy("group", "displayName", "STAFF")).toHaveLength(2);
    });
    // Sources know nothing of each other.
    await inboxes.change("entra", push, (inbox) => inbox.create("user", "1", user("ada")));
  });

  test("a change that fails has changed nothing", async () => {
    const { inboxes } = await stores.open();
    const fails = inboxes.change("okta", push, async (inbox) => {
      await inbox.create("user", "1", user("ada"));
      throw new Error("no");
    });
    await expect(fails).rejects.toThrow("no");
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.activity()).toEqual({ revision: 0 });
      expect(await inbox.counts(0)).toEqual({});
    });
  });

  test("lists are in the order of creation, and a number is never used again", async () => {
    const { inboxes } = await stores.open();
    const create = (id: string) => inboxes.change("okta", push, (inbox) => inbox.create("user", id, user(id)));
    for (const id of ["c", "a", "b"]) await create(id);
    await inboxes.change("okta", push, (inbox) => inbox.remove("user", "b"));
    await create("d");
    await inboxes.read("okta", async (inbox) => {
      const numbers = async (page: { after?: number; skip?: number; limit: number }) =>
        (await inbox.page("user", page)).map(({ id, number }) => `${id}${number}`);
      expect(await numbers({ limit: 2 })).toEqual(["c1", "a2"]);
      expect(await numbers({ limit: 2, after: 2 })).toEqual(["d4"]);
      expect(await numbers({ limit: 1, skip: 1 })).toEqual(["a2"]);
    });
  });

  test("members come and go; a change of them is one of the group", async () => {
    const { inboxes } = await stores.open();
    const change = <Result>(work: (inbox: InboxWriter) => Promise<Result>) => inboxes.change("okta", push, work);
    await change(async (inbox) => {
      for (const id of ["1", "2", "3"]) await inbox.create("user", id, user(id));
      for (const id of ["g", "h"]) await inbox.create("group", id, { displayName: id });
    });
    const ids = (inbox: Pick<InboxWriter, "members">) =>
      inbox.members("g", { limit: 10 }).then((members) => members.map(({ id }) => id));
    await change(async (inbox) => {
      const display = { display: 'A "b" \u0000' };
      expect(await inbox.addMembers("g", [{ id: "2", document: display }, { id: "1" }, { id: "1" }])).toBe(2);
      expect(await inbox.addMembers("g", [{ id: "1" }])).toBe(0);
      expect(await inbox.addMembers("h", [{ id: "1" }])).toBe(1);
      expect(await inbox.addMembers("g", [])).toBe(0);
      expect(await inbox.members("g", { limit: 10 })).toEqual([{ id: "1" }, { id: "2", document: display }]);
      expect(await inbox.members("g", { limit: 10, after: "1" })).toHaveLength(1);
      expect(await inbox.find("group", "g")).toMatchObject({ version: 2 });
      expect((await inbox.groupsOf("1")).map(({ id }) => id)).toEqual(["g", "h"]);
    });
    await change(async (inbox) => {
      expect(await inbox.removeMembers("g", ["2", "9"])).toBe(1);
      expect(await inbox.removeMembers("g", ["2"])).toBe(0);
      await inbox.setMembers("g", [{ id: "1" }, { id: "3" }]);
      expect(await ids(inbox)).toEqual(["1", "3"]);
      expect(await inbox.hasMember("g", "3")).toBe(true);
      expect(await inbox.hasMember("g", "2")).toBe(false);
    });
    await change(async (inbox) => {
      expect(await inbox.remove("user", "1")).toBe(true);
      expect(await inbox.remove("user", "1")).toBe(false);
      expect(await inbox.remove("user", "g")).toBe(false);
      expect(await ids(inbox)).toEqual(["3"]);
      expect(await inbox.remove("group", "g")).toBe(true);
      expect(await ids(inbox)).toEqual([]);
      await inbox.setMembers("h", []);
    });
  });

  test("what happened is counted from a time on", async () => {
    const { inboxes } = await stores.open();
    await inboxes.change("okta", { at: 10, token: "t" }, async (inbox) => {
      const ada = await inbox.create("user", "1", user("ada"));
      await inbox.create("user", "2", user("grace"));
      await inbox.create("group", "g", { displayName: "g" });
      await inbox.addMembers("g", [{ id: "1" }, { id: "2" }]);
      await inbox.replace(ada, user("ada"));
    });
    await inboxes.change("okta", { at: 20, token: "t" }, async (inbox) => {
      const ada = await inbox.find("user", "1");
      const suspended = await inbox.replace(ada!, user("ada", { active: false }));
      await inbox.replace(suspended, user("ada"));
      await inbox.remove("user", "2");
      await inbox.setMembers("g", []);
    });
    const second = { at: 20, amount: 1, token: "t", resourceKind: "user", resource: "1" };
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.activity()).toEqual({ revision: 2, first: 10, last: 20 });
      expect(await inbox.counts(11)).toEqual({ deactivated: 1, reactivated: 1, deleted: 1, left: 1 });
      expect(await inbox.counts(10)).toMatchObject({ created: 3, joined: 2 });
      expect(await inbox.counts(21)).toEqual({});
      const all = await inbox.events(100);
      expect(await inbox.events(3)).toEqual(all.slice(0, 3));
      expect(all.slice(0, 4).toSorted((a, b) => (a.kind < b.kind ? -1 : 1))).toEqual([
        { ...second, kind: "deactivated", document: user("ada") },
        { ...second, kind: "deleted", resource: "2" },
        { ...second, kind: "left", resource: "g", resourceKind: "group", document: { displayName: "g" } },
        { ...second, kind: "reactivated", document: user("ada") },
      ]);
      expect(
        all
          .slice(4)
          .map(({ kind, at: time }) => `${kind} ${time}`)
          .toSorted(),
      ).toEqual(["created 10", "created 10", "created 10", "joined 10"]);
    });
    await inboxes.read("other", async (inbox) => {
      expect(await inbox.events(1)).toEqual([]);
    });
  });

  test("events are stored for 30 days, those that brakes count for more than a year", async () => {
    const { inboxes } = await stores.open();
    const day = 86_400_000;
    const create = (id: string, time: number) =>
      inboxes.change("okta", { at: time, token: "t" }, (inbox) => inbox.create("user", id, user(id)));
    for (const id of ["1", "2"]) await create(id, 0);
    await inboxes.change("okta", { at: 0, token: "t" }, (inbox) => inbox.remove("user", "1"));
    for (let number = 4; number <= 99; number++) await create(`${number}`, 2 * day);
    await create("100", 31 * day);
    const counts = () => inboxes.read("okta", (inbox) => inbox.counts(0));
    expect(await counts()).toEqual({ created: 97, deleted: 1 });
    for (let number = 101; number <= 200; number++) await create(`${number}`, 401 * day);
    expect(await counts()).toEqual({ created: 100 });
    expect(await inboxes.read("okta", (inbox) => inbox.count("user"))).toBe(198);
  });

  test("tokens: several at once, and a change of them is no push", async () => {
    const { inboxes } = await stores.open();
    const first = { id: "1", digest: "aa", name: "okta", created: 5 };
    const second = { id: "2", digest: "bb", name: "okta, new", created: 6 };
    await inboxes.changeTokens("okta", async (tokens) => {
      await tokens.add(second);
      await tokens.add(first);
      await tokens.use("1", 7);
    });
    const used = { ...first, used: 7 };
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.tokens()).toEqual([used, second]);
      expect(await inbox.activity()).toEqual({ revision: 0 });
    });
    expect(await inboxes.read("entra", (inbox) => inbox.tokens())).toEqual([]);
    expect(await inboxes.changeTokens("okta", (tokens) => tokens.remove("1"))).toBe(true);
    expect(await inboxes.changeTokens("okta", (tokens) => tokens.remove("1"))).toBe(false);
    expect(await inboxes.read("okta", (inbox) => inbox.tokens())).toEqual([second]);
  });

  test("a read is of one moment, and changes do not wait for it", async () => {
    const { inboxes } = await stores.open();
    const create = (id: string) => inboxes.change("okta", push, (inbox) => inbox.create("user", id, user(id)));
    await create("1");
    await inboxes.read("okta", async (inbox) => {
      expect(await inbox.count("user")).toBe(1);
      await create("2");
      expect(await inbox.count("user")).toBe(1);
    });
    expect(await inboxes.read("okta", (inbox) => inbox.count("user"))).toBe(2);
  });

  test("a group of many", async () => {
    const { inboxes } = await stores.open();
    const members = Array.from({ length: 100_000 }, (_, index) => ({ id: `member ${index}` }));
    await inboxes.change("okta", push, async (inbox) => {
      await inbox.create("group", "g", { displayName: "g" });
      expect(await inbox.addMembers("g", members)).toBe(100_000);
      expect(await inbox.removeMembers("g", ["member 7"])).toBe(1);
      expect(await inbox.hasMember("g", "member 99999")).toBe(true);
      await inbox.setMembers("g", members);
      expect(await inbox.members("g", { limit: 200_000 })).toHaveLength(100_000);
    });
    expect(await inboxes.read("okta", (inbox) => inbox.counts(0))).toMatchObject({ joined: 100_001, left: 1 });
  });

  test("changes at the same time are one after the other", async () => {
    const store = await stores.open();
    const others = kind === "postgres" ? [await stores.open("two")] : [];
    const all = [store, ...others];
    const create = (index: number) =>
      all[index % all.length]!.inboxes.change("okta", push, async (inbox) => {
        await inbox.create("user", `${index}`, user(`name ${index % 10}`));
      });
    const results = await Promise.allSettled(Array.from({ length: 30 }, (_, index) => create(index)));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
    await store.inboxes.read("okta", async (inbox) => {
      expect((await inbox.page("user", { limit: 99 })).map(({ number }) => number)).toEqual(
        Array.from({ length: 10 }, (_, index) => index + 1),
      );
      expect(await inbox.activity()).toMatchObject({ revision: 10 });
    });
  });

  test("what was answered is there after a kill, and nothing by halves", async () => {
    const task: Pushing = { opening: stores.opening() };
    const child = spawnProgram(new URL("pushing.ts", import.meta.url), [JSON.stringify(task)]);
    let answered = 0;
    let rest = "";
    for await (const chunk of child.stdout) {
      const lines = (rest + String(chunk)).split("\n");
      rest = lines.pop() ?? "";
      answered = Number(lines.at(-1) ?? answered);
      if (answered >= 20) break;
    }
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    if (kind === "postgres") await stores.endLeases();
    const { inboxes } = await stores.open();
    await inboxes.read("okta", async (inbox) => {
      const users = await inbox.count("user");
      expect(users).toBeGreaterThanOrEqual(answered);
      const members = await inbox.members("g", { limit: 100_000 });
      expect(members).toHaveLength(users);
      expect(await inbox.counts(0)).toMatchObject({ created: users + 1, joined: users });
    });
    await inboxes.change("okta", push, (inbox) => inbox.create("user", "after", user("after")));
  });
});
