import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Limits } from "#plan/limits.ts";
import type { Account } from "#state/access.ts";
import { FolderStore } from "#state/folder/store.ts";
import type { Actor, RunRecord } from "#state/record.ts";
import { coordinated } from "../e2e/sync/coordinated.ts";
import type { Coordinated } from "../e2e/sync/coordinated.ts";
import { useStaff } from "../e2e/sync/staff.ts";

const staff = useStaff();
const ada: Actor = { name: "ada", from: "192.0.2.1", via: "account" };
const grace: Actor = { name: "grace", from: "192.0.2.2", via: "oidc", id: "https://id.example g1" };
const shell: Actor = { name: "root", from: "command line", via: "command line" };

const two = { people: 2, beyondLimits: 2, notTheRequester: false };

const created = "2026-11-21T10:00:00.000Z";
const accounts: readonly Account[] = [
  { id: "1", via: "account", name: "ada", role: "administrator", created },
  {
    id: "2",
    via: "oidc",
    name: "grace",
    role: "administrator",
    created,
    subject: { issuer: "https://id.example", sub: "g1" },
  },
];

const withAccounts = ({ store }: Coordinated, all = accounts): Promise<void> =>
  store.access.change((access) => [{ ...access, accounts: [...all] }, undefined]);

/** A sync whose plan waits: three people to create. */
async function waiting(approvers = two): Promise<Coordinated & { readonly first: RunRecord }> {
  const sync = await coordinated(staff, { approvers });
  await withAccounts(sync);
  await staff.people("ann", "bob", "cyd");
  return { ...sync, first: await sync.run() };
}

/** What was written down of approvals. */
async function approvals(): Promise<unknown[]> {
  const text = await readFile(join(staff.folder(), "daemon", "audit.jsonl"), "utf8");
  const entries = text.trim().split("\n");
  return entries.map((line) => JSON.parse(line) as { event: string }).filter(({ event }) => event === "approved");
}

describe("a plan that two people must approve", () => {
  test("waits after the first, and is applied with the second; who has is in the run and the audit log", async () => {
    const { approve, first: run, events } = await waiting();
    expect(run).toMatchObject({ state: "pending", approvers: { people: 2 } });
    const once = await approve(run.id, { by: ada, reason: "as announced" });
    expect(once).toMatchObject({ state: "pending", approvals: [{ by: ada, reason: "as announced" }], decisions: [] });
    expect(await staff.users()).not.toContain("ann");
    expect(events.at(-1)).toMatchObject({ type: "run", run: { approvals: [{ by: ada }] } });
    const last = await approve(run.id, { by: grace });
    expect(last).toMatchObject({ state: "applied", decisions: [{ by: ada }, { by: grace }] });
    expect([last.approvals, last.approvers]).toEqual([undefined, undefined]);
    expect(await staff.users()).toContain("ann");
    expect(await approvals()).toMatchObject([
      { by: ada, nth: 1, needed: 2 },
      { by: grace, nth: 2, needed: 2 },
    ]);
  });

  test("is not approved twice by one person; holders of the data folder are one, whatever they call themselves", async () => {
    const { approve, run, first } = await waiting();
    await approve(first.id, { by: ada });
    await expect(approve(first.id, { by: { ...ada, from: "192.0.2.9" } })).rejects.toThrow("ada has approved the run");
    // The same name at the provider is somebody else.
    const other: Actor = { name: "ada", from: "192.0.2.1", via: "oidc", id: "a1" };
    expect(await approve(first.id, { by: other })).toMatchObject({ state: "applied" });

    await staff.people("ann", "bob", "cyd", "dan");
    const second = await run();
    await approve(second.id, { by: shell });
    await expect(approve(second.id, { by: { ...shell, name: "somebody" } })).rejects.toThrow("already");
  });

  test("is approved in the same part, or waits; a plan that changes starts again; a rejection ends it", async () => {
    const { approve, run, first, find, coordinator } = await waiting();
    const selection = { except: [{ kind: "user", name: "cyd" }] } as const;
    await approve(first.id, { by: ada, selection });
    expect(await approve(first.id, { by: grace })).toMatchObject({ state: "pending", approvals: [{}, {}] });
    const part = { ...selection, only: undefined };
    expect(await approve(first.id, { by: shell, selection: part })).toMatchObject({ state: "applied" });
    expect(await staff.users()).not.toContain("cyd");

    const again = await run();
    await approve(again.id, { by: ada });
    expect(await run()).toMatchObject({ state: "superseded", sameAs: again.id });
    expect(find(again.id)).toMatchObject({ state: "pending", approvals: [{ by: ada }] });
    await staff.people("ann", "bob", "cyd", "dan");
    const changed = await run();
    expect(find(again.id)?.state).toBe("superseded");
    expect(await approve(changed.id, { by: grace })).toMatchObject({ state: "pending", approvals: [{ by: grace }] });
    expect(await coordinator.reject(changed.id, { by: ada })).toMatchObject({ state: "rejected" });
    await expect(approve(changed.id, { by: ada })).rejects.toThrow("it is rejected");
  });

  test("counts everybody once, however they write the part that they approve", async () => {
    const { approve, first } = await waiting({ people: 3, beyondLimits: 3, notTheRequester: false });
    const [whole, listed] = [
      { except: [], exceptCauses: [] },
      { except: [], only: undefined },
    ];
    await approve(first.id, { by: ada, selection: whole });
    await expect(approve(first.id, { by: ada, selection: whole })).rejects.toThrow("already");
    await expect(approve(first.id, { by: ada, selection: listed })).rejects.toThrow("already");
    const cyd = { kind: "user", name: "cyd" } as const;
    await approve(first.id, { by: grace, selection: { except: [cyd, cyd] } });
    await expect(approve(first.id, { by: grace, selection: { except: [cyd] } })).rejects.toThrow("already");
    expect(await approve(first.id, { by: grace, selection: whole })).toMatchObject({ state: "pending" });
    expect(await approve(first.id, { by: shell })).toMatchObject({ state: "applied", decisions: [{}, {}, {}] });
  });

  test("waits on where somebody who has approved it may not approve any more, and says so", async () => {
    const sync = await waiting();
    const { approve, first } = sync;
    await approve(first.id, { by: ada });
    await withAccounts(
      sync,
      accounts.map((each) => (each.name === "ada" ? { ...each, role: "viewer" } : each)),
    );
    expect(await approve(first.id, { by: grace })).toMatchObject({
      state: "pending",
      approvals: [{ by: grace }],
      notes: expect.arrayContaining([
        { text: expect.stringMatching(/^the approval of ada no longer counts: .*viewer/) },
      ]),
    });
    expect(await approve(first.id, { by: shell })).toMatchObject({
      state: "applied",
      decisions: [{ by: grace }, { by: shell }],
    });
  });

  test("waits again from the beginning where the last approval finds another target; approvals expire with it", async () => {
    const { approve, first, ahead, run } = await waiting();
    await approve(first.id, { by: ada });
    await staff.create("ann");
    expect(await approve(first.id, { by: grace })).toMatchObject({ state: "pending", error: {} });
    const again = await approve(first.id, { by: grace });
    expect(again).toMatchObject({ state: "pending", approvals: [{ by: grace }] });
    ahead(2 * 86_400_000);
    await run();
    await expect(approve(first.id, { by: ada })).rejects.toThrow("it is expired");
  });

  test("remembers its approvals when the process ends between them", async () => {
    const { approve, first } = await waiting();
    await approve(first.id, { by: ada });
    const retention = { keep: 90 * 86_400_000, runs: 100, lists: 20 };
    const store = await FolderStore.open({
      folder: join(staff.folder(), "daemon"),
      retention,
      warn: () => {},
    });
    expect(store.journal.find(first.id)).toMatchObject({ state: "pending", approvals: [{ by: ada }] });
    await store.close();
  });

  test("is not applied by one who names its digest: that is the first approval", async () => {
    const { coordinator, approve, first, find } = await waiting();
    const request = { sync: "staff", cause: "demand", by: ada, digest: first.digest?.slice(0, 12) ?? "" } as const;
    // It is the plan that waits already: once, and not as the last one, which would have to apply it.
    for (const by of [ada, ada, grace]) {
      const ended = await (await coordinator.begin({ ...request, by })).ended;
      expect(ended).toMatchObject({ state: "superseded", sameAs: first.id });
      expect(find(first.id)).toMatchObject({ state: "pending", approvals: [{ by: ada, digest: first.digest }] });
      expect(find(first.id)?.approvals).toHaveLength(1);
    }
    await coordinator.reject(first.id, { by: grace });
    const run = await (await coordinator.begin(request)).ended;
    expect(run).toMatchObject({ state: "pending", decisions: [], approvals: [{ by: ada, digest: first.digest }] });
    await expect(approve(run.id, { by: ada })).rejects.toThrow("already");
    expect(await approve(run.id, { by: grace })).toMatchObject({ state: "applied", decisions: [{}, {}] });
  });
});

test("whoever asks for a run, or for an undo, does not approve it", async () => {
  const { coordinator, approve } = await coordinated(staff, {
    approvers: { people: 1, beyondLimits: 1, notTheRequester: true },
  });
  await staff.people("ann");
  const run = await (await coordinator.begin({ sync: "staff", cause: "demand", by: ada })).ended;
  await expect(approve(run.id, { by: ada })).rejects.toThrow("ada asked for the run");
  expect(await approve(run.id, { by: grace })).toMatchObject({ state: "applied" });
  const undo = await (await coordinator.undo(run.id, { by: grace })).ended;
  await expect(approve(undo.id, { by: grace, overrides: ["deletes"] })).rejects.toThrow("grace asked for the run");
  expect(await approve(undo.id, { by: ada, overrides: ["deletes"] })).toMatchObject({ state: "applied" });
});

test("a run of before 0.3, of which only a name is known, is not approved by somebody of that name", async () => {
  const { coordinator, approve } = await coordinated(staff, {
    approvers: { people: 1, beyondLimits: 1, notTheRequester: true },
  });
  await staff.people("ann");
  const by = { name: "ada", from: "192.0.2.1" };
  const run = await (await coordinator.begin({ sync: "staff", cause: "demand", by })).ended;
  await expect(approve(run.id, { by: ada })).rejects.toThrow("ada asked for the run");
  expect(await approve(run.id, { by: grace })).toMatchObject({ state: "applied" });
});

test("two people for a plan beyond its limits, nobody for any other; both override the limit", async () => {
  const limits: Limits = { sources: {}, floor: 0, action: "hold", deletes: { count: 0, per: "run" } };
  const sync = await coordinated(
    staff,
    { approval: "automatic", approvers: { people: 1, beyondLimits: 2, notTheRequester: false } },
    () => ({ limits }),
  );
  const { coordinator, approve, run } = sync;
  await withAccounts(sync);
  await staff.people("ann", "bob");
  expect(await run()).toMatchObject({ state: "applied" });
  await staff.people("ann");
  const held = await run();
  expect(held).toMatchObject({ state: "held", approvers: { people: 2 } });
  await expect(approve(held.id, { by: ada })).rejects.toThrow("held by limits");
  const first = await approve(held.id, { by: ada, overrides: ["deletes"] });
  expect(first).toMatchObject({ state: "held", approvals: [{ overrides: ["deletes"] }] });
  await coordinator.reject(held.id, { by: grace });

  // One who overrides it for a plan by its digest has approved it once.
  const request = {
    sync: "staff",
    cause: "demand",
    by: ada,
    digest: held.digest ?? "",
    overrides: ["deletes"],
  } as const;
  const shared = await (await coordinator.begin(request)).ended;
  expect(shared).toMatchObject({ state: "pending", approvers: { people: 2 }, approvals: [{ by: ada }] });
  expect(await staff.users()).toContain("bob");
  await expect(approve(shared.id, { by: grace })).rejects.toThrow("is beyond its limits; approve it despite them");
  expect(await approve(shared.id, { by: grace, overrides: ["deletes"] })).toMatchObject({ state: "applied" });
  expect(await staff.users()).not.toContain("bob");
});
