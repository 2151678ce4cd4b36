import fastify from "fastify";
import { expect, test } from "vitest";
import type { Visitor } from "#console/accounts.ts";
import type { AppOptions } from "#console/context.ts";
import { addInboxPages } from "#console/inbox-routes.ts";
import { layout, placesOf } from "#console/layout.ts";
import { addedToken, heldByPushes, inbox, newToken, revokeToken } from "#console/pages/inbox.ts";
import type { ShownInbox } from "#console/pages/inbox.ts";
import { html } from "#console/html.ts";
import { pendingRun, trippedLimit } from "../../support/runs.ts";
import { hostile, textOf } from "../../support/pages.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");
const hour = 3_600_000;
const token = html`<input type="hidden" name="token" value="t" />`;

function shown(more: Partial<ShownInbox> = {}, status: Partial<ShownInbox["status"]> = {}): ShownInbox {
  return {
    status: {
      source: "okta",
      users: 420,
      groups: 1,
      first: "2026-11-20T12:00:00.000Z",
      last: "2026-11-21T11:59:00.000Z",
      losses: [],
      tokens: [
        { id: "a1", name: "production", created: "2026-11-01T00:00:00.000Z", used: "2026-11-21T11:00:00.000Z" },
        { id: "configuration-b2", name: "token 1 of the configuration", created: "2026-11-01T00:00:00.000Z" },
      ],
      ...status,
    },
    settings: {
      settle: 300_000,
      maxWait: hour,
      firstCycle: 24 * hour,
      brakes: { window: 24 * hour, deletions: { percent: 10 }, membershipsLost: { count: 50 } },
      refuse: false,
      requestsPerSecond: 500,
      allowPlainHttp: false,
    },
    recent: { counts: {}, events: [] },
    address: "https://rollcall.example/scim/v2/okta",
    mayManage: true,
    ...more,
  };
}

const pushed = {
  ...trippedLimit(),
  limit: "pushed",
  of: "users deleted in okta, pushed with production (80)",
  value: 80,
  bound: 42,
} as const;

test("a page has what came when, what a run waits for, what brakes count, and what happened last", () => {
  const source = shown(
    {
      recent: {
        counts: { created: 2, left: 1_200 },
        events: [
          {
            kind: "left",
            amount: 3,
            resourceKind: "group",
            resource: "g1",
            name: "Staff",
            at: "2026-11-21T11:59:00.000Z",
            pusher: "production",
          },
          {
            kind: "deleted",
            amount: 1,
            resourceKind: "user",
            resource: "u1",
            at: "2026-11-21T11:58:00.000Z",
            pusher: "a token that was revoked",
          },
        ],
      },
    },
    {
      waitsUntil: "2026-11-21T12:04:00.000Z",
      firstCycleUntil: "2026-11-22T10:00:00.000Z",
      losses: [{ loss: "deletions", of: "users", lost: 80, most: 42, basis: "10% of 420", pushers: "production (80)" }],
    },
  );
  const run = pendingRun("20261121-100000-000001", { state: "held", heldBy: "limits", limits: [pushed] });
  const page = inbox({ now, sources: [source], held: [run] }).toString();
  const text = textOf(page);
  expect(text).toContain("okta 420 users, 1 group");
  expect(text).toMatch(/is held by limits : pushed losses beyond the bound/);
  expect(text).toContain("80 users deleted in okta, pushed with production (80); at most 42");
  expect(page).toContain('href="/runs/20261121-100000-000001/plan"');
  expect(text).toContain("a run reads them in 4 minutes at the earliest");
  expect(text).toMatch(/First cycle\. Nobody is deleted for being absent .* in 22 hours at the earliest/);
  expect(text).toContain("First push 1 day ago Last push 1 minute ago");
  expect(text).toContain("2 created, 1,200 memberships removed");
  expect(text).toContain("10% deleted, 50 memberships lost, within 1 day");
  expect(text).toMatch(/80 users deleted , at most 42 10% of 420 · pushed with production \(80\) · beyond the limit/);
  expect(text).not.toContain("No plan is held for it");
  expect(textOf(inbox({ now, sources: [source], held: [] }).toString())).toContain("No plan is held for it");
  expect(text).toMatch(/production 20 days ago 1 hour ago Revoke…/);
  expect(text).toMatch(/token 1 of the configuration 20 days ago never in the configuration/);
  expect(text).toMatch(/Staff 3 members removed production 1 minute ago/);
  expect(text).toMatch(/u1 deleted a token that was revoked 2 minutes ago/);
});

test("only who may manage inboxes is offered to add and revoke tokens", () => {
  const page = inbox({ now, sources: [shown({ mayManage: false })], held: [] }).toString();
  expect(page).not.toMatch(/Revoke|Add a token/);
  expect(textOf(page)).toContain("production 20 days ago 1 hour ago");
  expect(inbox({ now, sources: [shown()], held: [] }).toString()).toContain('href="/inbox/okta/revoke?token=a1"');
});

test("an inbox is empty at first, and a provider may take away anything without brakes", () => {
  const settings = { ...shown().settings!, brakes: false as const };
  const status = { first: undefined, last: undefined, tokens: [], users: 0, groups: 0 };
  const text = textOf(inbox({ now, sources: [shown({ settings }, status)], held: [] }).toString());
  expect(text).toContain("okta nothing was pushed yet");
  expect(text).toContain("First push never Last push never");
  expect(text).toContain("None: providers may take away anything.");
  expect(textOf(inbox({ now, sources: [], held: [] }).toString())).toContain("No source has an inbox.");
});

test("a plan is held by brakes until somebody overrides them, or it is decided", () => {
  const held = pendingRun("20261121-100000-000001", { state: "held", heldBy: "limits", limits: [pushed] });
  expect(heldByPushes(held)).toBe(true);
  expect(heldByPushes({ ...held, limits: [{ ...pushed, overridden: true }] })).toBe(false);
  expect(heldByPushes({ ...held, limits: [trippedLimit()] })).toBe(false);
  expect(heldByPushes({ ...held, state: "rejected" })).toBe(false);
});

test("a console without inboxes does not mention them", () => {
  const visitor = { name: "ada", address: "::1", token: "t", via: "service", role: "viewer" } as const;
  expect(placesOf(visitor, []).map(({ href }) => href)).toContain("/inbox");
  expect(placesOf(visitor, ["inbox"]).map(({ href }) => href)).not.toContain("/inbox");
});

test("whoever signed in with an account of one target sees the inboxes of that one, and manages those of it alone", async () => {
  const server = fastify();
  server.decorateRequest("visitor");
  let visitor: Visitor = { name: "ada", address: "::1", token: "t", via: "target", role: "administrator" };
  server.addHook("onRequest", async (request) => {
    request.visitor = visitor;
  });
  server.setErrorHandler((error: { status?: number }, _, reply) => reply.code(error.status ?? 500).send());
  const sync = (target: string, ...sources: string[]) => ({
    sync: target,
    target,
    sources: sources.map((name) => ({ name })),
  });
  const settings = shown().settings;
  const options = {
    inboxes: {
      status: async () => ["own", "shared", "foreign"].map((source) => shown({}, { source }).status),
      settingsOf: (source: string) => (source === "none" ? undefined : { ...settings, tokens: ["a-secret"] }),
      recent: async () => shown().recent,
    },
    connections: {
      syncs: () => [sync("grafana", "own", "shared"), sync("slack", "shared", "foreign")],
      targets: () => [{ name: "grafana" }, { name: "slack" }],
    },
    control: { daemon: () => ({ coordinator: { syncs: () => [], runs: () => [] } }) },
  } as unknown as AppOptions;
  addInboxPages(server, options, (_request, reply, _frame, main) => reply.send(main.toString()));
  const links = async (): Promise<string[]> => {
    const { body } = await server.inject("/inbox");
    expect(body).not.toContain("a-secret");
    return [...body.matchAll(/aria-label="Pushes to (\w+)"|href="(\/inbox\/\w+\/token)"/g)].map(
      ([, seen = "", add]) => add ?? seen,
    );
  };
  const adds = (source: string) => server.inject(`/inbox/${source}/token`).then(({ statusCode }) => statusCode);
  visitor = { ...visitor, target: "grafana" };
  expect(await links()).toEqual(["own", "/inbox/own/token", "shared"]);
  expect(await Promise.all(["own", "shared", "foreign", "none"].map(adds))).toEqual([200, 403, 403, 404]);
  visitor = { ...visitor, target: undefined };
  expect(await links()).toHaveLength(6);
  expect(await adds("foreign")).toBe(200);
  visitor = { ...visitor, role: "approver" };
  expect(await links()).toEqual(["own", "shared", "foreign"]);
  expect(await adds("own")).toBe(403);
});

test("text from outside is harmless in it", () => {
  for (const text of hostile) {
    const listed = { id: text, name: text, created: "2026-11-01T00:00:00.000Z" };
    const event = {
      kind: "changed",
      amount: 1,
      resourceKind: "user",
      resource: text,
      at: listed.created,
      pusher: text,
    } as const;
    const losses = [
      { loss: "deletions", of: "users", lost: 1, most: 2, basis: "as configured", pushers: text },
    ] as const;
    const recent = { counts: {}, events: [event, { ...event, name: text }] };
    const sources = [shown({ recent, address: text }, { source: text, tokens: [listed], losses })];
    const page = { source: text, token };
    for (const content of [
      inbox({
        now,
        sources,
        held: [pendingRun("20261121-100000-000001", { sync: text, limits: [{ ...pushed, of: text }] })],
      }),
      newToken({ ...page, name: text, problem: text }),
      addedToken({ source: text, address: text, name: text, token: "secret" }),
      revokeToken({ ...page, now, listed }),
    ]) {
      const whole = layout({ title: text, version: "1", section: "inbox" }, content).toString();
      expect(whole).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
      expect(whole.match(/<\/html>/g)).toHaveLength(1);
      expect(whole).not.toMatch(/ style=| on[a-z]+="/);
    }
  }
});
