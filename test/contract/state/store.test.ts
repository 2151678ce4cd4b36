import { once } from "node:events";
import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { literal } from "#duckdb/database.ts";
import { noAccess } from "#state/access.ts";
import { hasReadAll } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { paths } from "#state/store.ts";
import { spawnProgram } from "../../support/process.ts";
import { random } from "../../support/random.ts";
import { endedRun, pendingRun } from "../../support/runs.ts";
import type { Opened } from "./opened.ts";
import { loadPlan, ownInLedger, ownedIn, savePlan, withPlan } from "./planned.ts";
import { kinds, storeOfEachTest } from "./stores.ts";
import { idOf } from "./working.ts";
import type { Working } from "./working.ts";

/** What every store of state does, wherever it is. */

const by = { name: "kim", from: "command line" };
const running = (number: number, change: Partial<RunRecord> = {}): RunRecord =>
  pendingRun(idOf(number), { state: "running", kept: false, ...change });
const ended = (number: number, change: Partial<RunRecord> = {}): RunRecord =>
  endedRun({ id: idOf(number), startedAt: "2026-11-21T10:00:00.000Z", ...change });
const statesOf = (runs: readonly RunRecord[]): string[] => runs.map(({ id, state }) => `${id} ${state}`).toSorted();

async function put(store: Opened, path: string, content: string): Promise<void> {
  const file = join(store.files.folder, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, content);
}

describe.each(kinds)("the state in: %s", (kind) => {
  const stores = storeOfEachTest(kind);
  const work = (task: Omit<Working, "opening">) =>
    spawnProgram(new URL("working.ts", import.meta.url), [JSON.stringify({ ...task, opening: stores.opening() })]);

  test("a state that is new has nothing, for a reader neither", async () => {
    const reader = await stores.reader();
    expect(await reader.journal()).toMatchObject({ runs: [], syncs: {} });
    const store = await stores.open();
    expect(store.journal.runs).toEqual([]);
    expect(store.journal.state("staff")).toEqual({ skipped: [] });
    expect(store.audit.head()).toMatchObject({ sequence: 0 });
    expect(await reader.verify({ from: 0 })).toMatchObject({ entries: 0 });
    // Tables have whole milliseconds: who leaves now would leave a moment later by a time between two.
    for (let time = 0; time < 5; time++) expect(Number.isInteger(store.lease.now())).toBe(true);
  });

  test("runs are known at once and to readers, and stay when the process ends", async () => {
    const store = await stores.open();
    const reader = await stores.reader();
    await Promise.all([5, 3, 4].map((number) => store.journal.put(ended(number))));
    await store.journal.put(running(6));
    const noted = running(6, { stages: [{ stage: "read", startedAt: "2026-11-21T10:00:01.000Z" }] });
    store.journal.note(noted);
    expect(store.journal.find(idOf(6))).toEqual(noted);
    await expect
      .poll(async () => (await reader.journal()).runs.find(({ id }) => id === idOf(6))?.stages, { timeout: 20_000 })
      .toEqual(noted.stages);
    await store.journal.put([ended(4, { state: "failed" }), ended(6)], {
      sync: "staff",
      change: (state) => ({ ...state, lastSuccessAt: "2026-11-21T10:00:02.000Z" }),
    });
    await store.journal.remove(idOf(5));
    const expected = [`${idOf(3)} no change`, `${idOf(4)} failed`, `${idOf(6)} no change`];
    expect(statesOf(store.journal.runs)).toEqual(expected);
    const known = await reader.journal();
    expect(statesOf(known.runs)).toEqual(expected);
    expect(known.syncs).toEqual({ staff: { skipped: [], lastSuccessAt: "2026-11-21T10:00:02.000Z" } });
    expect(store.journal.find(idOf(5))).toBeUndefined();
    await store.close();
    const next = await stores.open();
    expect(next.journal.runs).toEqual(known.runs);
    expect(next.journal.state("staff")).toEqual(known.syncs["staff"]);
  });

  test("changes of a sync's state that come at once are all there", async () => {
    const store = await stores.open();
    const since = "2026-11-21T10:00:00.000Z";
    const count = (state: { failures?: { count: number } }) => ({ count: (state.failures?.count ?? 0) + 1, since });
    await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        at % 2 === 0
          ? store.journal.change("staff", (state) => ({ ...state, failures: count(state) }))
          : store.journal.put(ended(at), { sync: "staff", change: (state) => ({ ...state, failures: count(state) }) }),
      ),
    );
    expect(store.journal.state("staff").failures?.count).toBe(30);
    expect((await (await stores.reader()).journal()).syncs["staff"]?.failures?.count).toBe(30);
  });

  test("a run whose process was killed is running while it lives, and has failed then", async () => {
    const child = work({ what: "run", first: 1 });
    child.stderr.pipe(process.stderr);
    await once(child.stdout, "data");
    const reader = await stores.reader();
    const found = async (): Promise<RunRecord | undefined> => (await reader.journal()).runs.at(0);
    expect(await found()).toMatchObject({ state: "running" });
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    await expect.poll(async () => (await found())?.state).toBe("failed");
    expect(await found()).toMatchObject({ recovery: expect.stringContaining("its process was killed"), error: {} });
    // The next process finds it as it was left, and can say more.
    const store = await stores.open();
    expect(store.journal.find(idOf(1))).toMatchObject({ state: "running" });
    await expect
      .poll(async () => {
        await store.lease.whileClaimed("target", () => store.journal.refresh());
        return store.journal.isElsewhere(idOf(1));
      })
      .toBe(false);
  });

  test.each([
    [{ sentAt: "2026-11-21T10:00:01.000Z" }, { state: "failed", endUnknown: true }],
    [{ expiresAt: "2036-11-21T10:00:01.000Z" }, { state: "pending" }],
    [{ expiresAt: "2036-11-21T10:00:01.000Z", heldBy: "limits" as const }, { state: "held" }],
  ])("a reader knows of a run that was left with %o: %o", async (left, shown) => {
    const store = await stores.open();
    await store.journal.put(running(1, left));
    await store.close();
    expect((await (await stores.reader()).journal()).runs).toMatchObject([shown]);
  });

  test("runs beyond the retention go, and those whose plans go are told", async () => {
    const store = await stores.open("one", { retention: { keep: 1e12, runs: 4, lists: 1 } });
    for (let number = 1; number <= 6; number++)
      await store.journal.put(ended(number, { state: "applied", kept: true, endedAt: new Date().toISOString() }));
    await store.journal.put(pendingRun(idOf(0)));
    await store.journal.prune(Date.now());
    const left = (runs: readonly RunRecord[]) =>
      runs.map(({ id, kept }) => `${id.slice(-1)}${kept ? "+" : ""}`).toSorted();
    expect(left(store.journal.runs)).toEqual(["0+", "4", "5", "6+"]);
    expect(left((await (await stores.reader()).journal()).runs)).toEqual(["0+", "4", "5", "6+"]);
    await store.journal.prune(Date.now() + 2e12);
    expect(left(store.journal.runs)).toEqual(["0+"]);
  });

  test("the audit log is one chain over all openings, which readers check while it grows", async () => {
    const reader = await stores.reader();
    for (let opening = 0; opening < 3; opening++) {
      const store = await stores.open();
      const appended = Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          store.audit.append({ event: "rejected", by, sync: "staff", run: "r", reason: `${opening}/${at} \u001F\n"ü` }),
        ),
      );
      expect((await reader.verify()).broken).toBeUndefined();
      await appended;
      expect(store.audit.head()).toMatchObject({ sequence: 10 * (opening + 1) });
      await store.close();
    }
    const reasons: unknown[] = [];
    const found = await reader.verify({ visit: ({ facts }) => void reasons.push(facts["reason"]) });
    expect(found).toMatchObject({ entries: 30, head: { sequence: 30 }, damages: [] });
    expect(found.broken).toBeUndefined();
    expect(reasons).toEqual(Array.from({ length: 30 }, (_, at) => `${Math.floor(at / 10)}/${at % 10} \u001F\n"ü`));
    expect(await reader.verify({ from: 21 })).toMatchObject({ entries: 10 });
    const { head } = found;
    const newer = await reader.verify({ expected: { ...head, sequence: 31 } });
    expect(newer.broken).toMatchObject({ what: "removed" });
  });

  test("an entry that is too long is not written, and the log goes on", async () => {
    const store = await stores.open();
    const entry = { event: "rejected", by, sync: "staff", run: "r" } as const;
    await store.audit.append({ ...entry, reason: "first" });
    await expect(store.audit.append({ ...entry, reason: "x".repeat(2 ** 20) })).rejects.toThrow("too long");
    await store.audit.append({ ...entry, reason: "second" });
    expect(await (await stores.reader()).verify()).toMatchObject({ entries: 2 });
  });

  test("accounts, sessions and tokens change one after the other, all or nothing, and stay", async () => {
    const store = await stores.open();
    const reader = await stores.reader();
    expect(await reader.access.read()).toEqual(noAccess);
    expect(await store.access.read()).toEqual(noAccess);
    const add = (name: string) =>
      store.access.change((access) => {
        const created = "2026-11-21T10:00:00.000Z";
        const added = { id: name, via: "account", name, role: "viewer", password: "$argon2id$x", created } as const;
        return [{ ...access, accounts: [...access.accounts, added] }, access.accounts.length];
      });
    const names = Array.from({ length: 20 }, (_, at) => `user ${at} ü`);
    expect((await Promise.all(names.map(add))).toSorted((a, b) => a - b)).toEqual(names.map((_, at) => at));
    await expect(
      store.access.change(() => {
        throw new Error("not like this");
      }),
    ).rejects.toThrow("not like this");
    // Nothing has changed: nothing is written.
    expect(await store.access.change((access) => [access, "same"])).toBe("same");
    const known = await store.access.read();
    expect(known.accounts.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
    await expect.poll(async () => reader.access.read()).toEqual(known);
    await store.close();
    const next = await stores.open();
    expect(await next.access.read()).toEqual(known);
  });

  test("failed sign-ins are counted over all processes, and forgotten for whoever signs in", async () => {
    const minute = 60_000;
    const options = { attempts: 2, window: minute, lockout: minute, isKnown: () => false };
    // A folder is one process's.
    const first = (await stores.open("one")).throttle(options);
    const second = kind === "folder" ? first : (await stores.open("two")).throttle(options);
    const fail = async (throttle: typeof first, name: string): Promise<unknown> => {
      const end = await throttle.begin(name, "10.0.0.1");
      return typeof end === "function" ? end("failed") : end;
    };
    for (const throttle of [first, second]) expect(await fail(throttle, "ada")).toBeUndefined();
    for (const throttle of [first, second]) expect(await fail(throttle, "ada")).toEqual({ retryAfter: 60 });
    expect(await fail(second, "kim")).toBeUndefined();
    const end = await first.begin("kim", "10.0.0.1");
    if (typeof end === "function") await end("succeeded");
    for (const throttle of [second, first]) expect(await fail(throttle, "kim")).toBeUndefined();
    expect(await fail(first, "kim")).toEqual({ retryAfter: 60 });
  });

  test("a ledger has what its syncs own, and no more what they do not", async () => {
    const store = await stores.open();
    const reader = await stores.reader();
    await ownInLedger(store, "staff", ["ada", "ben"], "1");
    await ownInLedger(store, "partners", ["cy"], "2");
    expect(await ownedIn(reader, "staff")).toEqual(["ada", "ben"]);
    await ownInLedger(store, "staff", ["ben", "dee"], "3");
    expect(await ownedIn(reader, "staff")).toEqual(["ben", "dee"]);
    expect(await ownedIn(reader, "partners")).toEqual(["cy"]);
    const many = Array.from({ length: 3_000 }, (_, at) => `user ${String(at).padStart(5, "0")}`);
    await ownInLedger(store, "staff", many, "4");
    await store.close();
    const next = await stores.open();
    await ownInLedger(next, "partners", ["cy", "eve"], "5");
    expect(await ownedIn(reader, "staff")).toEqual(many);
    expect(await ownedIn(reader, "partners")).toEqual(["cy", "eve"]);
  });

  test("a stored plan comes back as it was, unless somebody has changed it", async () => {
    const store = await stores.open();
    const seal = await savePlan(store, idOf(1), ["ada", "ben"]);
    const other = await savePlan(store, idOf(2), ["cy"]);
    expect(other).not.toBe(seal);
    await store.close();
    const next = await stores.open();
    await next.plans.fetch([idOf(1)]);
    await next.plans.verify(idOf(1), seal);
    expect(await loadPlan(next, idOf(1))).toEqual(["ada", "ben"]);
    await expect(next.plans.verify(idOf(1), other)).rejects.toThrow("its files have changed since the run");
    await appendFile(next.plans.file(idOf(1), "managed"), "x");
    await next.files.save(paths.plans(idOf(1)));
    await expect(next.plans.verify(idOf(1), seal)).rejects.toThrow("its files have changed since the run");
    await expect(loadPlan(next, idOf(9))).rejects.toThrow(`the stored plan of run ${idOf(9)} cannot be read`);
  });

  test("a plan is replaced by its part, renewed by a newer one, and goes when nobody needs it", async () => {
    const store = await stores.open();
    await savePlan(store, idOf(1), ["ada", "ben"]);
    await savePlan(store, `${idOf(1)}.part`, ["ben"]);
    await store.plans.replaceByPart(idOf(1));
    expect(await loadPlan(store, idOf(1))).toEqual(["ben"]);
    // Without a part it has happened already.
    await store.plans.replaceByPart(idOf(1));
    await savePlan(store, idOf(2), ["ben", "cy"]);
    await store.plans.renew(idOf(1), idOf(2));
    expect(await loadPlan(store, idOf(1))).toEqual(["ben", "cy"]);
    for (const number of [3, 4]) await savePlan(store, idOf(number), ["dee"]);
    await savePlan(store, `${idOf(3)}.part`, ["dee"]);
    await savePlan(store, `${idOf(4)}.part`, ["dee"]);
    await store.plans.prune({ ended: [idOf(1), idOf(3)], underWay: [idOf(4)] });
    await store.close();
    const next = await stores.open();
    for (const id of [idOf(1), idOf(3), idOf(4), `${idOf(4)}.part`]) await loadPlan(next, id);
    for (const id of [idOf(2), `${idOf(3)}.part`]) await expect(loadPlan(next, id)).rejects.toThrow("cannot be read");
  });

  test("quarantined records are there for readers, with a plan and without one", async () => {
    const store = await stores.open();
    await savePlan(store, idOf(1), ["ada"]);
    await withPlan(store.files.folder, ["ben", "cy"], (connection) => store.plans.saveQuarantined(idOf(2), connection));
    const reader = await stores.reader();
    await reader.files.fetch([`runs/${idOf(1)}/`, `runs/${idOf(2)}/`]);
    const names = (id: string) =>
      withPlan(store.files.folder, [], async (connection) => {
        const file = literal(join(reader.files.folder, "runs", id, "quarantined.parquet"));
        return (await connection.rows<{ name: string }>(`SELECT name FROM read_parquet(${file}) ORDER BY 1`)).map(
          ({ name }) => name,
        );
      });
    expect(await names(idOf(1))).toEqual(["doubtful ada"]);
    expect(await names(idOf(2))).toEqual(["doubtful ben", "doubtful cy"]);
    expect(hasReadAll(ended(1))).toBe(false);
  });

  test("baselines, export records, unsent notices and the last configuration are what was saved last", async () => {
    const files = {
      "baselines/staff.json": '{"folder":"staff@1"}',
      "baselines/staff@1/record.parquet": "rows",
      "exports/embedded.json": '[["main",null]]',
      "outbox/mail/1.json": "{}",
      "configuration.json": '{"version":1}',
    };
    const all = ["baselines/", "exports/", "outbox/", "configuration.json"];
    const store = await stores.open();
    for (const [path, content] of Object.entries(files)) await put(store, path, content);
    await store.files.save(all);
    await put(store, "exports/embedded.json", "[]");
    await store.files.save(["exports/embedded.json"]);
    await store.close();
    const next = await stores.open();
    await next.files.fetch(all);
    const reader = await stores.reader();
    await reader.files.fetch(all);
    for (const folder of [next.files.folder, reader.files.folder])
      for (const [path, content] of Object.entries({ ...files, "exports/embedded.json": "[]" }))
        expect(await readFile(join(folder, path), "utf8"), path).toBe(content);
  });

  test("a second process waits, or has lost nothing when it writes; one without its lease writes nothing", async () => {
    const store = await stores.open();
    await store.journal.put(ended(1));
    if (kind === "folder") {
      await expect(stores.open("another")).rejects.toThrow("is using the data folder");
      return;
    }
    const other = await stores.open("another");
    await other.journal.put(ended(2));
    expect((await store.journal.refresh()).map(({ id }) => id)).toEqual([idOf(2)]);
    await put(store, "exports/embedded.json", "[]");
    await stores.endLeases();
    const lost = "has lost its lease";
    await expect(store.journal.put(ended(3))).rejects.toThrow(lost);
    await expect(store.audit.append({ event: "started", by, process: 1 })).rejects.toThrow(lost);
    await expect(store.files.save(["exports/"])).rejects.toThrow(lost);
    await expect(savePlan(store, idOf(3), ["ada"])).rejects.toThrow(lost);
    const known = await (await stores.reader()).journal();
    expect(known.runs.map(({ id }) => id)).toEqual([idOf(1), idOf(2)]);
  });

  test("what was acknowledged is there after a kill, and nothing is there in part", async () => {
    let next = 1;
    const acknowledged = new Set<string>();
    for (let round = 0; round < 2; round++) {
      const child = work({ what: "runs", first: next });
      let said = "";
      child.stderr.pipe(process.stderr);
      child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
      await once(child.stdout, "data");
      await delay(random() * 600);
      const gone = once(child, "close");
      child.kill("SIGKILL");
      await gone;
      const last = Number(said.trimEnd().split("\n").at(-1));
      const store = await stores.open();
      const found = new Map(store.journal.runs.map((run) => [run.id, run]));
      for (let number = next; number <= last; number++) {
        const run = found.get(idOf(number));
        acknowledged.add(idOf(number));
        expect(run, idOf(number)).toMatchObject({ state: "applied", kept: true });
        await store.plans.fetch([idOf(number)]);
        await store.plans.verify(idOf(number), run?.seal ?? "");
        expect(await loadPlan(store, idOf(number))).toHaveLength(number + 1);
      }
      // It may have gone on with the next one.
      const reached = store.journal.find(idOf(last + 1));
      expect([undefined, "running", "applied"]).toContain(reached?.state);
      const reader = await stores.reader();
      const asked = new Set<unknown>();
      const { broken } = await reader.verify({ visit: ({ facts }) => void asked.add(facts["run"]) });
      // A line that is not whole is cut off, and told of, by the next process.
      expect(broken).toBeUndefined();
      for (const id of acknowledged) expect(asked.has(id), id).toBe(true);
      const owned = await ownedIn(reader, "staff");
      expect([last + 1, last + 2]).toContain(owned.length);
      expect((await reader.journal()).syncs["staff"]?.lastSuccessAt?.localeCompare(idOf(last))).toBeGreaterThanOrEqual(
        0,
      );
      next = last + 2;
      await store.close();
    }
  });
});
