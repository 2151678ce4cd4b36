import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Action } from "#roles.ts";
import type { ControlServer } from "../../support/control.ts";
import { startControl } from "../../support/control.ts";
import { openManualCoordinator } from "../../support/coordinator.ts";
import type { ManualCoordinator } from "../../support/coordinator.ts";
import { pendingRun, trippedLimit } from "../../support/runs.ts";
import { accountsIn } from "../../support/accounts.ts";

const pending = "20261121-100000-000001";
/** Beyond its limits, which ask for an approval. */
const beyond = "20261121-100000-000002";
const password = "correct horse battery";
const by = { name: "root", from: "command line", via: "command line" } as const;

describe("over the API", () => {
  let coordinator: ManualCoordinator;
  let server: ControlServer;
  const tokens: Record<string, string> = {};

  const ask = async (path: string, { as, body }: { as?: string; body?: unknown } = {}) => {
    const headers = as === undefined ? { authorization: "" } : { authorization: `Bearer ${tokens[as] ?? as}` };
    const answer =
      body === undefined ? await server.request(path, { headers }) : await server.post(path, body, headers);
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };

  beforeAll(async () => {
    coordinator = openManualCoordinator([pendingRun(pending), pendingRun(beyond, { limits: [trippedLimit()] })]);
    server = await startControl(coordinator);
    for (const role of ["viewer", "approver", "administrator"]) {
      await server.post("/control/v1/accounts", { name: role, role, password });
      const login = await ask("/control/v1/login", { body: { name: role.toUpperCase(), password, token: "laptop" } });
      tokens[role] = String(login.body["token"]);
    }
  });
  afterAll(() => server.stop());

  test("each role may do what it may, and hears who may do the rest", async () => {
    const digest = "a".repeat(64);
    const wanted: readonly (readonly [Action, string, unknown])[] = [
      ["look", "/runs", undefined],
      ["decide", `/runs/${pending}/reject`, {}],
      ["decide", `/runs/${pending}/undo`, {}],
      ["decide", "/syncs/staff/run", {}],
      ["decide", `/runs/${pending}/approve`, { digest }],
      ["override", `/runs/${pending}/approve`, { digest, overrides: ["deletes"] }],
      ["override", `/runs/${beyond}/approve`, { digest }],
      ["override", `/runs/${beyond}/approve`, { digest, only: ["create"] }],
      ["override", "/syncs/staff/run", { overrides: ["deletes"] }],
      ["manage accounts", "/accounts", undefined],
      ["manage accounts", "/tokens", undefined],
      ["manage accounts", "/accounts", { name: "eve", role: "administrator", password }],
      ["manage accounts", "/accounts/viewer", { role: "administrator" }],
      ["manage accounts", "/accounts/viewer/remove", {}],
      ["manage accounts", "/tokens/x/revoke", {}],
      ["reload", "/reload", {}],
    ];
    const refused = async (as: string): Promise<Action[]> => {
      const found: Action[] = [];
      for (const [action, path, body] of wanted) {
        const { status, body: answer } = await ask(`/control/v1${path}`, { as, body });
        if (status !== 403) continue;
        found.push(action);
        expect(answer).toMatchObject({ error: { message: expect.stringContaining(`; ${as} has the role ${as}`) } });
      }
      return found;
    };
    const before = coordinator.calls.length;
    expect(await refused("viewer")).toEqual(wanted.slice(1).map(([action]) => action));
    expect(coordinator.calls.length).toBe(before);
    expect(await refused("approver")).toEqual(wanted.slice(5).map(([action]) => action));
    // What somebody does over the API has their name, and how they proved it.
    expect(JSON.stringify(coordinator.calls)).toContain(
      JSON.stringify({ name: "approver", from: "127.0.0.1", via: "account", token: "laptop" }),
    );
    expect((await ask("/control/v1/reload", { as: "administrator", body: {} })).status).toBe(200);
  });

  test("nothing is said about an account to whoever guesses, and guessing ends", async () => {
    const login = (name: string, given = "wrong password") =>
      ask("/control/v1/login", { body: { name, password: given, token: "x" } });
    expect(await login("nobody")).toEqual(await login("viewer"));
    const statuses: number[] = [];
    for (let count = 0; count < 6; count++) statuses.push((await login("victim")).status);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429]);
    // Others are not kept out.
    expect((await login("viewer", password)).status).toBe(201);
    const other = await server.request("/control/v1/login", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "", "sec-fetch-site": "cross-site" },
      body: JSON.stringify({ name: "viewer", password, token: "x" }),
    });
    expect(other.status).toBe(403);
  });

  test("a token ends when it is revoked, its account disabled, or its owner logs out; a role changes at once", async () => {
    const add = { name: "kim", role: "approver", password };
    await ask("/control/v1/accounts", { as: "administrator", body: add });
    const logIn = async (name: string): Promise<string> => {
      const { body } = await ask("/control/v1/login", { body: { name: "kim", password, token: name } });
      return String(body["token"]);
    };
    const statusOf = async (as: string): Promise<number> => (await ask("/control/v1/status", { as })).status;
    const [revoked, left, kept] = [await logIn("one"), await logIn("two"), await logIn("three")];
    const { body } = await ask("/control/v1/tokens", { as: "administrator" });
    const listed = (body as { tokens: { id: string; name: string; owner: string }[] }).tokens;
    const { id = "" } = listed.find(({ name, owner }) => name === "one" && owner === "kim") ?? {};
    expect(JSON.stringify(listed)).not.toContain("digest");
    expect((await ask(`/control/v1/tokens/${id}/revoke`, { as: "administrator", body: {} })).status).toBe(200);
    expect((await ask("/control/v1/logout", { as: left, body: {} })).status).toBe(200);
    expect([await statusOf(revoked), await statusOf(left), await statusOf(kept)]).toEqual([401, 401, 200]);
    await ask("/control/v1/accounts/kim", { as: "administrator", body: { role: "viewer" } });
    expect((await ask(`/control/v1/runs/${pending}/reject`, { as: kept, body: {} })).status).toBe(403);
    await ask("/control/v1/accounts/kim", { as: "administrator", body: { disabled: true } });
    expect(await statusOf(kept)).toBe(401);
    expect((await ask("/control/v1/login", { body: { name: "kim", password, token: "x" } })).status).toBe(403);
    await ask("/control/v1/accounts/kim", { as: "administrator", body: { disabled: false } });
    expect(await statusOf(kept)).toBe(200);
    expect(await ask("/control/v1/caller", { as: kept })).toMatchObject({ body: { name: "kim", role: "viewer" } });
  });

  test("neither the log nor the stored accounts have a token or a password", async () => {
    const stored = await readFile(join(server.data, "access.json"), "utf8");
    for (const secret of [password, ...Object.values(tokens)]) {
      expect(server.logged()).not.toContain(secret);
      expect(stored).not.toContain(secret);
    }
  });
});

describe("accounts", () => {
  let folder: string;
  let now = Date.parse("2026-11-21T10:00:00.000Z");
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-accounts-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  test("a session ends with its time, its account, its password, and stays with whoever changes their own", async () => {
    const { accounts, sessions, recorded } = accountsIn(folder, () => now);
    await accounts.add({ name: "Ada", role: "viewer", password }, by);
    await expect(accounts.add({ name: "ada", role: "viewer", password }, by)).rejects.toThrow(
      "there is an account ada",
    );
    for (const short of ["short", "Ada", " "])
      await expect(accounts.add({ name: "bob", role: "viewer", password: short }, by)).rejects.toThrow(
        "the password must",
      );
    const id = (await accounts.list())[0]?.id ?? "";
    const find = async (token: string, isUse = false) => (await sessions.find(token, isUse))?.account.name;
    const first = await sessions.open(id);
    now += 2.9 * 3_600_000;
    expect(await find(first, true)).toBe("Ada");
    now += 2.9 * 3_600_000;
    expect(await find(first)).toBe("Ada");
    now += 200_000_000;
    expect(await find(first, true)).toBeUndefined();

    const [own, other] = [await sessions.open(id), await sessions.open(id)];
    const kept = (await sessions.find(own, false))?.proof.digest;
    const address = "192.0.2.7";
    const change = (current: string) =>
      accounts.changeOwn(id, { current, password: "another long one" }, { by, address, kept });
    await expect(change("wrong")).rejects.toThrow("the current password is wrong");
    await change(password);
    expect([await find(own), await find(other)]).toEqual(["Ada", undefined]);
    expect(await accounts.signIn({ name: "Ada", password }, address)).toEqual({ outcome: "wrong" });
    await accounts.change("ADA", { disabled: true }, by);
    expect(await find(own)).toBeUndefined();
    await accounts.change("ada", { disabled: false }, by);
    // It does not come back with the account.
    expect(await find(own)).toBeUndefined();
    const again = await sessions.open(id);
    await accounts.remove(id, by);
    expect(await find(again)).toBeUndefined();
    expect(recorded.map((entry) => ("change" in entry ? entry.change : entry.event))).toEqual([
      "added",
      "password",
      "disabled",
      "enabled",
      "removed",
    ]);
    expect(JSON.stringify(recorded)).not.toContain(password);
  });

  test("the account of a name is not the provider's person of that name", async () => {
    const { accounts } = accountsIn(join(folder, "provider"), () => now);
    await accounts.add({ name: "kim", role: "administrator", password }, by);
    const subject = { issuer: "https://login.example.com", sub: "1" };
    const person = await accounts.vouched({ subject, name: "kim", role: "viewer" });
    expect(person).toMatchObject({ via: "oidc", role: "viewer" });
    expect((await accounts.list()).map(({ via, role }) => `${via} ${role}`).toSorted()).toEqual([
      "account administrator",
      "oidc viewer",
    ]);
    // Whoever disables one of them by the name might mean the other.
    await expect(accounts.change("Kim", { disabled: true }, by)).rejects.toThrow("several people have the name Kim");
    await expect(accounts.remove("kim", by)).rejects.toThrow("use an id");
    const { id: local = "" } = (await accounts.list()).find(({ via }) => via === "account") ?? {};
    await accounts.change(local, { disabled: true }, by);
    expect(await accounts.find(person.id)).not.toHaveProperty("disabled");
    await expect(accounts.change(person.id, { role: "administrator" }, by)).rejects.toThrow("the OpenID provider");
    expect(await accounts.vouched({ subject, name: "Kim K", role: "approver" })).toMatchObject({
      id: person.id,
      name: "Kim K",
      role: "approver",
    });
    await accounts.change(person.id, { disabled: true }, by);
    await expect(accounts.vouched({ subject, name: "kim", role: "viewer" })).rejects.toThrow("is disabled in Rollcall");
  });

  test("people of a provider that the configuration no longer has are nobody, with a session and with a token", async () => {
    const at = join(folder, "moved");
    const issuer = "https://login.example.com";
    const { accounts, sessions } = accountsIn(at, () => now, issuer);
    const person = await accounts.vouched({ subject: { issuer, sub: "1" }, name: "kim", role: "administrator" });
    const session = await sessions.open(person.id);
    const token = await sessions.createToken(person, "laptop", by);
    expect(await sessions.find(session, false)).toMatchObject({ account: { name: "kim" } });
    expect(await sessions.findToken(token)).toMatchObject({ account: { name: "kim" } });
    for (const other of [undefined, "https://other.example.com"]) {
      const later = accountsIn(at, () => now, other).sessions;
      expect([await later.find(session, false), await later.findToken(token)]).toEqual([undefined, undefined]);
    }
  });

  test("a logout of the provider ends the session that it names, and those of the person that have no name", async () => {
    const issuer = "https://login.example.com";
    const { accounts, sessions, recorded } = accountsIn(join(folder, "logout"), () => now, issuer);
    const person = await accounts.vouched({ subject: { issuer, sub: "1" }, name: "kim", role: "viewer" });
    const other = await accounts.vouched({ subject: { issuer, sub: "2" }, name: "ada", role: "viewer" });
    const open = (id: string, sid?: string) =>
      sessions.open(id, { until: now + 1_000_000_000, sid, idToken: "", refreshToken: undefined });
    const all = [await open(person.id, "s1"), await open(person.id, "s2"), await open(person.id), await open(other.id)];
    const lasting = async () => Promise.all(all.map(async (each) => (await sessions.find(each, false)) !== undefined));
    const tokens = [await sessions.createToken(person, "laptop", by), await sessions.createToken(other, "ci", by)];
    const valid = async () => Promise.all(tokens.map(async (each) => (await sessions.findToken(each)) !== undefined));
    expect(await sessions.endOfProvider({ id: "1", issuer, sid: "s3" })).toBe(0);
    expect(await valid()).toEqual([true, true]);
    expect(await sessions.endOfProvider({ id: "2", issuer, sub: "1", sid: "s1" })).toBe(2);
    expect(await lasting()).toEqual([false, true, false, true]);
    // Nobody vouches for the owner of the token any more.
    expect(await valid()).toEqual([false, true]);
    expect(recorded.at(-1)).toMatchObject({ event: "token", change: "revoked", account: "kim", token: "laptop" });
    await expect(sessions.endOfProvider({ id: "2", issuer, sub: "1" })).rejects.toThrow("taken before");
    expect(await sessions.endOfProvider({ id: "3", issuer: "https://other.example.com", sub: "1" })).toBe(0);
    expect(await sessions.endOfProvider({ id: "4", issuer, sub: "1" })).toBe(1);
    expect(await lasting()).toEqual([false, false, false, true]);
  });
});
