import { join } from "node:path";
import { expect, test } from "vitest";
import { connector, load, problemsOf, valid, withSync } from "./support.ts";

const hour = 3_600_000;
const service = {
  listen: { host: "127.0.0.1", port: 8442 },
  administrator: { name: "admin" },
  allowPlainHttp: false,
  engine: "duckdb",
  prefixes: ["", "/callosum/v1"],
  trustedProxies: [],
  sessions: { idle: 3 * hour, remembered: 7 * 24 * hour },
  logins: { attempts: 10, window: hour / 12, lockout: hour / 12 },
  privileges: { administration: ["Administrator"], dataManagement: ["Administrator", "DataManager"] },
  loads: {
    statusHold: 2_000,
    expireAfter: 24 * hour,
    lostAfter: 30_000,
    maxChunk: 8 * 2 ** 30,
    maxCycle: 64 * 2 ** 30,
    minFreeDisk: 2 ** 30,
  },
  queries: { timeout: 60_000, maxRows: 100_000 },
};

test.each([
  "service:\n",
  "service: {}\n",
  "service:\n  sessions:\n  logins: {}\n  administrator: { password: '' }\ntargets:\n",
])(
  "a file with only the service is valid; what it leaves out has its default (0.1, 0.2, 0.5 to 0.8): %j",
  async (text) => {
    const { configuration, folder } = await load(text);
    expect(configuration).toEqual({
      file: join(folder, "rollcall.yaml"),
      text,
      folder,
      settings: configuration.settings,
      data: join(folder, "data"),
      memory: 2 ** 30,
      service,
      control: { listen: { host: "127.0.0.1", port: 0 }, allowPlainHttp: false },
      targets: {},
      sources: {},
      syncs: {},
      journal: { keep: 90 * 24 * hour, runs: 1000, lists: 20 },
      notifications: {},
      metrics: { open: false },
      console: { viewers: false },
      secrets: [],
      warnings: [],
    });
  },
);

test("the data folder and memory of the daemon alone; beside the service it shares the service's", async () => {
  const { configuration, folder } = await load("daemon: { data: state, memory: 256MiB }");
  expect(configuration).toMatchObject({ data: join(folder, "state"), memory: 256 * 2 ** 20 });
  expect(await problemsOf("service:\ndaemon: { data: state, memory: 256MiB }")).toEqual(
    [
      ["2:11", "data"],
      ["2:24", "memory"],
    ].map(
      ([place, key]) =>
        `rollcall.yaml:${place}: daemon.${key}: only applies to a file without \`service:\`; here, set service.${key} instead`,
    ),
  );
});

test("a file without a service is valid: the daemon alone", async () => {
  const { configuration, folder } = await load(
    valid
      .replace("service:\n", "")
      .replace("embedded", '{ url: "https://h:8443", username: u, password: p, ca: rollcall.yaml }'),
  );
  expect(configuration.service).toBeUndefined();
  expect(configuration.data).toBe(join(folder, "data"));
  expect(configuration.memory).toBe(2 ** 30);
  expect(configuration.targets).toEqual({
    analytics: {
      url: "https://h:8443",
      username: "u",
      password: "p",
      prefix: "",
      nodes: [],
      ca: join(folder, "rollcall.yaml"),
    },
  });
});

test("a sync that says no more than it must manages what it owns and protects nothing", async () => {
  const { configuration } = await load(valid);
  expect(configuration.sources).toMatchObject({ corp: { connector, options: {} } });
  expect(configuration.syncs).toEqual({
    staff: {
      from: ["corp"],
      optional: [],
      to: "analytics",
      approval: "automatic",
      approvers: { people: 1, beyondLimits: 1, notTheRequester: false },
      approvalExpires: 24 * hour,
      catchUp: true,
      retries: { attempts: 3, first: 60_000, most: 900_000 },
      rules: { users: { name: "entry.uid", displayName: "entry.cn" }, staticGroups: [], defaultGroups: [] },
      manage: "owned",
      causes: true,
      drift: { policy: "revert", ignore: [] },
      expectations: [],
      keepManual: [],
      protect: { users: [], groups: [] },
      deletions: { after: 0 },
      renames: "apply",
      reusedNames: "hold",
      limits: {
        deletes: { percent: 10, per: "day" },
        suspends: { percent: 10, per: "day" },
        updates: { percent: 50, per: "day" },
        membershipsLost: { percent: 25, per: "day" },
        "membershipsLost.perGroup": { percent: 50, per: "day" },
        blanked: { percent: 10, per: "day" },
        shrink: { percent: 20, per: "day" },
        quarantined: { percent: 20, per: "day" },
        heldNames: { percent: 20, per: "day" },
        sources: {},
        floor: 10,
        action: "hold",
      },
    },
  });
});

test("the limit on single groups follows the one on all memberships", async () => {
  const of = async (text: string) => {
    const { configuration } = await load(withSync(`limits: { membershipsLost: ${text}, per: run }`));
    const { membershipsLost, "membershipsLost.perGroup": perGroup } = configuration.syncs["staff"]?.limits ?? {};
    return [membershipsLost, perGroup];
  };
  const usual = { percent: 50, per: "run" };
  expect(await of("none")).toEqual([undefined, undefined]);
  expect(await of("7")).toEqual([{ count: 7, per: "run" }, usual]);
  expect(await of("{ per: day }")).toEqual([
    { percent: 25, per: "day" },
    { percent: 50, per: "day" },
  ]);
  expect(await of("{ percent: 30%, perGroup: 20, floor: 5 }")).toEqual([
    { percent: 30, per: "run", floor: 5 },
    { count: 20, per: "run", floor: 5 },
  ]);
  expect(await of("{ count: 30, perGroup: none }")).toEqual([{ count: 30, per: "run" }, undefined]);
});

test("a limit that only says for how long it counts has its usual bound, and 0% lets nothing pass whatever the floor", async () => {
  const of = async (text: string) => {
    const { configuration } = await load(withSync(`limits: { ${text} }`));
    return configuration.syncs["staff"]?.limits;
  };
  expect(await of("deletes: { per: run }, shrink: { per: run }, creates: { per: run }")).toMatchObject({
    deletes: { percent: 10, per: "run" },
    shrink: { percent: 20, per: "run" },
    creates: undefined,
  });
  expect(await of("deletes: 0%, updates: { count: 5, percent: 0 }, membershipsLost: { perGroup: 0% }")).toMatchObject({
    deletes: { count: 0, per: "day" },
    updates: { count: 0, per: "day" },
    membershipsLost: { percent: 25, per: "day" },
    "membershipsLost.perGroup": { count: 0, per: "day" },
  });
});

test("everything that can be said arrives as it was said", async () => {
  const text = withSync(`schedule: "*/15 * * * *"
timezone: Europe/Amsterdam
jitter: 30s
catchUp: false
retries: { attempts: 0, first: 10s, most: 1h }
overdueAfter: 26h
approval: { people: 2, beyondLimits: 3, notTheRequester: true }
approvalExpires: 2d
groups: { name: entry.cn, displayName: entry.cn, description: entry.text, groups: '"all"', include: "true", exclude: "false", rename: { a: b } }
staticGroups: { everyone: { displayName: All, description: Every one, groups: [top] }, top: }
defaultGroups: [everyone]
manage: everything
causes: false
protect: { users: ["svc-*"], groups: [Operators] }
deletions: { after: 7d }
renames: hold
reusedNames: apply
limits: { deletes: 5%, updates: 20, creates: { count: 30, percent: 0.5%, per: day }, membershipsLost: none, blanked: { percent: 3 }, shrink: 0, quarantined: 7%, heldNames: 3, minUsers: 10, minGroups: 2, floor: 0, per: run, action: apply-the-rest }
defaultPassword: change-me`)
    .replace("[corp]", "[{ source: corp, minUsers: 5 }]")
    .replace(
      "service:\n",
      `service:
  listen: "[::1]:9000"
  data: ../elsewhere
  memory: 512MiB
  administrator: { name: root, password: secret }
  tls: { cert: tls/cert.pem, key: tls/key.pem }
  allowPlainHttp: true
  prefixes: ["", /a, /a/b]
  trustedProxies: [127.0.0.1, 10.0.0.0/8, "fd00::/8"]
  sessions: { idle: 90s, remembered: 30d }
  logins: { attempts: 3, window: 15m, lockout: 1h }
  privileges: { administration: [], dataManagement: [Loaders] }
  tables: sql/tables.sql
  advertise: "[fd00::1]:8442"
  nodeAddress: { host: node1.example.com, port: 443 }
  pinboards: sql
  queries: { timeout: 2m, maxRows: 10 }
  loads: { statusHold: 1s, expireAfter: 2h, lostAfter: 1m, maxChunk: 64KiB, maxCycle: 1MiB, minFreeDisk: 2GiB }
`,
    );
  const { configuration, folder } = await load(text, {
    files: { "tls/cert.pem": "", "tls/key.pem": "", "sql/tables.sql": "" },
  });
  expect(configuration.service).toEqual({
    listen: { host: "::1", port: 9000 },
    administrator: { name: "root", password: "secret" },
    tls: { cert: join(folder, "tls/cert.pem"), key: join(folder, "tls/key.pem") },
    allowPlainHttp: true,
    engine: "duckdb",
    prefixes: ["", "/a", "/a/b"],
    trustedProxies: ["127.0.0.1", "10.0.0.0/8", "fd00::/8"],
    sessions: { idle: 90_000, remembered: 30 * 24 * hour },
    logins: { attempts: 3, window: hour / 4, lockout: hour },
    privileges: { administration: [], dataManagement: ["Loaders"] },
    tables: join(folder, "sql/tables.sql"),
    pinboards: join(folder, "sql"),
    queries: { timeout: 120_000, maxRows: 10 },
    advertise: { host: "fd00::1", port: 8442 },
    nodeAddress: { host: "node1.example.com", port: 443 },
    loads: {
      lostAfter: 60_000,
      statusHold: 1_000,
      expireAfter: 2 * hour,
      maxChunk: 65_536,
      maxCycle: 2 ** 20,
      minFreeDisk: 2 ** 31,
    },
  });
  expect(configuration.data).toBe(join(folder, "../elsewhere"));
  expect(configuration.memory).toBe(2 ** 29);
  expect(configuration.syncs["staff"]).toEqual({
    from: ["corp"],
    optional: [],
    to: "analytics",
    schedule: "*/15 * * * *",
    timezone: "Europe/Amsterdam",
    jitter: 30_000,
    approval: "required",
    approvers: { people: 2, beyondLimits: 3, notTheRequester: true },
    approvalExpires: 48 * hour,
    catchUp: false,
    retries: { attempts: 0, first: 10_000, most: hour },
    overdueAfter: 26 * hour,
    rules: {
      users: { name: "entry.uid", displayName: "entry.cn" },
      groups: {
        name: "entry.cn",
        displayName: "entry.cn",
        description: "entry.text",
        groups: '"all"',
        include: "true",
        exclude: "false",
        rename: { a: "b" },
      },
      staticGroups: [
        { name: "everyone", displayName: "All", description: "Every one", groups: ["top"] },
        { name: "top", displayName: "top", groups: [] },
      ],
      defaultGroups: ["everyone"],
    },
    manage: "everything",
    causes: false,
    drift: { policy: "revert", ignore: [] },
    expectations: [],
    keepManual: [],
    protect: { users: ["svc-*"], groups: ["Operators"] },
    deletions: { after: 7 * 24 * hour },
    renames: "hold",
    reusedNames: "apply",
    limits: {
      deletes: { percent: 5, per: "run" },
      suspends: { percent: 10, per: "run" },
      updates: { count: 20, per: "run" },
      creates: { count: 30, percent: 0.5, per: "day" },
      blanked: { percent: 3, per: "run" },
      shrink: { count: 0, per: "run" },
      quarantined: { percent: 7, per: "run" },
      heldNames: { count: 3, per: "run" },
      minUsers: 10,
      minGroups: 2,
      sources: { corp: { minUsers: 5 } },
      floor: 0,
      action: "apply-the-rest",
    },
    defaultPassword: "change-me",
  });
});
