import { expect, test } from "vitest";
import { load, problemsOf, valid, withSync } from "./support.ts";

/** Problems of a configuration with `lines` below `service:`; the first of them is line 2. */
function inService(lines: string): Promise<readonly string[]> {
  return problemsOf(
    `service:\n${lines
      .split("\n")
      .map((line) => `  ${line}\n`)
      .join("")}`,
  );
}

const listen = "expected an address like 127.0.0.1:8442 or [::1]:8442";
const duration = "expected a duration like 90s, 15m, 3h, 7d";
const prefix = 'expected "" or a path like /callosum/v1';
const url = "expected a URL like https://analytics.example.com";

const service: readonly [lines: string, problem: string][] = [
  ["listen: 8442", `2:11: service.listen: ${listen}, not 8442; put it in quotes: "8442"`],
  ["listen: :8442", `2:11: service.listen: ${listen}, not ":8442"`],
  ["listen: ::1:8442", `2:11: service.listen: ${listen}, not "::1:8442"`],
  ["listen: localhost", `2:11: service.listen: ${listen}, not "localhost"`],
  ["listen: 127.0.0.1:65536", `2:11: service.listen: ${listen}, not "127.0.0.1:65536"`],
  ["listen: 127.0.0.300:80", `2:11: service.listen: ${listen}, not "127.0.0.300:80"`],
  ["listen:", `2:3: service.listen: ${listen}; the key has no value`],
  ["data: ''", '2:9: service.data: expected the path of a folder, not ""'],
  ["memory: 64MB", '2:11: service.memory: expected a size like 512MiB or 1GiB, not "64MB"'],
  ["memory: 63MiB", '2:11: service.memory: expected a size of at least 64MiB, not "63MiB"'],
  ["administrator: admin", '2:18: service.administrator: expected keys with values, not "admin"'],
  ["administrator: { nam: x }", '2:20: service.administrator.nam: unknown key; did you mean "name"?'],
  ["administrator: { name: '' }", '2:26: service.administrator.name: expected a name of 1 to 255 characters, not ""'],
  ["tls: { cert: rollcall.yaml }", "2:3: service.tls.key: missing; expected the path of a file"],
  ["tls:", "2:3: service.tls: expected keys with values; the key has no value"],
  ["allowPlainHttp: yes", '2:19: service.allowPlainHttp: expected true or false, not "yes"'],
  [
    "trustedProxies: [10.0.0.0/8, 10.0.0.0/33]",
    '2:32: service.trustedProxies[1]: expected an address or a network like 10.0.0.0/8, not "10.0.0.0/33"',
  ],
  [
    "trustedProxies: [proxy.example]",
    '2:20: service.trustedProxies[0]: expected an address or a network like 10.0.0.0/8, not "proxy.example"',
  ],
  ["prefixes: /callosum/v1", '2:13: service.prefixes: expected a list of paths, not "/callosum/v1"'],
  ["prefixes: ['', callosum]", `2:18: service.prefixes[1]: ${prefix}, not "callosum"`],
  ["prefixes: [/callosum/]", `2:14: service.prefixes[0]: ${prefix}, not "/callosum/"`],
  ...["/control", "/control/v1", "/control/x"].map((value): [string, string] => [
    `prefixes: [${value}]`,
    `2:14: service.prefixes[0]: /control belongs to the daemon's own API; choose another path`,
  ]),
  ["sessions: { idle: 3 hours }", `2:21: service.sessions.idle: ${duration}, not "3 hours"`],
  ["sessions: { idle: 0s }", `2:21: service.sessions.idle: ${duration}, not "0s"`],
  ["sessions: { remembered: 7 }", `2:27: service.sessions.remembered: ${duration}, not 7; put it in quotes: "7"`],
  ["logins: { attempts: 0 }", "2:23: service.logins.attempts: expected a whole number, at least 1, not 0"],
  ["logins: { attempts: 1.5 }", "2:23: service.logins.attempts: expected a whole number, at least 1, not 1.5"],
  [
    "privileges: { administration: A }",
    '2:33: service.privileges.administration: expected a list of group names, not "A"',
  ],
  [
    "privileges: { administration: [''] }",
    '2:34: service.privileges.administration[0]: expected a name of 1 to 255 characters, not ""',
  ],
  [
    "backend: duckdb",
    "2:3: service.backend: unknown key; expected one of: listen, data, engine, administrator, tls, allowPlainHttp, trustedProxies, prefixes, sessions, logins, privileges, tables, advertise, nodeAddress, loads, pinboards, queries, memory",
  ],
  ["tables: ''", '2:11: service.tables: expected the path of a file, not ""'],
  ["pinboards: ''", '2:14: service.pinboards: expected the path of a folder, not ""'],
  ["queries: { maxRows: 0 }", "2:23: service.queries.maxRows: expected a whole number, at least 1, not 0"],
  ["queries: { timeout: 60 }", `2:23: service.queries.timeout: ${duration}, not 60; put it in quotes: "60"`],
  [
    "advertise: 10.0.0.5",
    '2:14: service.advertise: expected an address like 127.0.0.1:8442 or [::1]:8442, not "10.0.0.5"',
  ],
  ["advertise: 'n1:0'", '2:14: service.advertise: expected the port that this replica listens on, not "n1:0"'],
  ["nodeAddress: { host: n }", "2:3: service.nodeAddress.port: missing; expected a port from 1 to 65535"],
  [
    "nodeAddress: { host: 'http://n', port: 1 }",
    '2:24: service.nodeAddress.host: expected a host like node1.example.com, not "http://n"',
  ],
  [
    "nodeAddress: { host: n, port: 65536 }",
    "2:33: service.nodeAddress.port: expected a port from 1 to 65535, not 65536",
  ],
  ["loads: { maxChunk: 0KiB }", '2:22: service.loads.maxChunk: expected a size like 512MiB or 1GiB, not "0KiB"'],
  ["loads: { expireAfter: 1 }", `2:25: service.loads.expireAfter: ${duration}, not 1; put it in quotes: "1"`],
];

test.each(service)("service: %s", async (lines, problem) => {
  expect(await inService(lines)).toEqual([`rollcall.yaml:${problem}`]);
});

test("0.1 plain HTTP on an address that is not loopback is refused, with its line", async () => {
  const problem =
    "service.listen: plain HTTP on an address that other machines can reach; set service.tls, or set service.allowPlainHttp: true if a proxy in front of Rollcall encrypts";
  for (const address of ["0.0.0.0:8442", "[::]:8442", "10.0.0.1:8442", "node1.example.com:8442"])
    expect(await inService(`listen: "${address}"`)).toEqual([`rollcall.yaml:2:11: ${problem}`]);
  expect(await inService('allowPlainHttp: false\nlisten: "0.0.0.0:8442"')).toEqual([`rollcall.yaml:3:11: ${problem}`]);
});

test("the daemon listens on loopback by default", async () => {
  const control = (lines: string): string => `control: { ${lines} }\ntargets:\n`;
  expect(await problemsOf(control("listen: 0.0.0.0:9000"))).toEqual([
    "rollcall.yaml:1:20: control.listen: plain HTTP on an address that other machines can reach; set control.allowPlainHttp: true if nobody can listen in on that network",
  ]);
  const { configuration } = await load(control("listen: 0.0.0.0:9000, allowPlainHttp: true"));
  expect(configuration.control).toEqual({ listen: { host: "0.0.0.0", port: 9000 }, allowPlainHttp: true });
  expect((await load("service: { prefixes: [/controls, /x/control] }")).configuration.service?.prefixes).toHaveLength(
    2,
  );
});

test("0.1 plain HTTP is fine on loopback; elsewhere with TLS in its place, or when it is allowed", async () => {
  for (const address of ["127.0.0.1:8442", "127.8.0.1:1", "[::1]:8442", "[::ffff:127.0.0.1]:8442", "LOCALHOST:0"])
    expect((await load(`service: { listen: "${address}" }`)).configuration.service).toBeDefined();
  await load("service: { listen: 0.0.0.0:8442, allowPlainHttp: true }");
  const files = { "cert.pem": "", "key.pem": "" };
  await load("service: { listen: 0.0.0.0:8442, tls: { cert: cert.pem, key: key.pem } }", { files });
});

test("files of TLS that are not there are problems at their place", async () => {
  const problems = await problemsOf(
    "service:\n  tls:\n    cert: cert.pem\n    key: keys\ntargets:\n  far:\n    url: https://x\n    username: u\n    password: p\n    ca: ca.pem\n",
    { files: { "keys/x": "" } },
  );
  expect(problems.map((problem) => problem.replace(/ \(looked in [^)]*\)/, ""))).toEqual([
    "rollcall.yaml:3:11: service.tls.cert: cert.pem does not exist",
    "rollcall.yaml:4:10: service.tls.key: keys is a folder, not a file",
    "rollcall.yaml:10:9: targets.far.ca: ca.pem does not exist",
  ]);
});

test("a folder of pinboards that is not there, or is none, is a problem at its place", async () => {
  const problem = async (path: string): Promise<string | undefined> =>
    (await problemsOf(`service:\n  pinboards: ${path}\n`))[0]?.replace(/ \(looked in [^)]*\)/, "");
  expect(await problem("none")).toBe("rollcall.yaml:2:14: service.pinboards: none does not exist");
  expect(await problem("rollcall.yaml")).toBe(
    "rollcall.yaml:2:14: service.pinboards: rollcall.yaml is a file, not a folder",
  );
});

const target: readonly [value: string, ...problems: string[]][] = [
  ["embeded", '2:6: targets.a: expected embedded or keys with values, not "embeded"; did you mean "embedded"?'],
  ["embedded", "2:6: targets.a: embedded means the service in this file, but the file has no service:"],
  [
    "{ url: 'https://x', username: u }",
    "2:3: targets.a.password: missing; expected the user's password, or where it is: ${env:NAME} or ${file:/path}",
  ],
  ["{ url: x.example, username: u, password: p }", `2:13: targets.a.url: ${url}, not "x.example"`],
  ["{ url: 'ftp://x', username: u, password: p }", `2:13: targets.a.url: ${url}, not "ftp://x"`],
  [
    "{ url: 'https://u:p@x', username: u, password: p }",
    "2:13: targets.a.url: the URL must not contain a user name or a password; use the keys username and password",
  ],
  [
    "{ url: 'https://x/callosum/v1', username: u, password: p }",
    "2:13: targets.a.url: the URL must not have a path; put the path before /tspublic/v1 into the key prefix",
  ],
  [
    "{ url: 'http://x.example', username: u, password: p }",
    "2:13: targets.a.url: the password would cross the network unencrypted; use an https URL",
  ],
  [
    "{ url: 'https://x', username: u, password: 12345, prefixx: /a }",
    "2:49: targets.a.password: expected the user's password, or where it is: ${env:NAME} or ${file:/path}; put it in quotes",
    '2:56: targets.a.prefixx: unknown key; did you mean "prefix"?',
  ],
  [
    "{ url: https://x, username: u, password: p, nodes: ['https://node1'] }",
    '2:58: targets.a.nodes[0]: expected a host like node1.example.com or node1.example.com:8442, not "https://node1"',
  ],
  ["5", "2:6: targets.a: expected embedded or keys with values, not 5"],
];

test.each(target)("target: %s", async (value, ...problems) => {
  expect(await problemsOf(`targets:\n  a: ${value}\n`)).toEqual(problems.map((problem) => `rollcall.yaml:${problem}`));
});

test("a target may be plain HTTP on this machine", async () => {
  const { configuration } = await load(
    "targets:\n  a: { url: 'http://[::1]:8080/', username: u, password: p, prefix: /callosum/v1 }\n",
  );
  expect(configuration.targets).toEqual({
    a: { url: "http://[::1]:8080", username: "u", password: "p", nodes: [], prefix: "/callosum/v1" },
  });
});

const sync: readonly [lines: string, ...problems: string[]][] = [
  ["schedul: x", '14:5: syncs.staff.schedul: unknown key; did you mean "schedule"?'],
  [
    'schedule: "* * *"',
    '14:15: syncs.staff.schedule: expected a cron expression like "*/15 * * * *" (minute, hour, day, month, weekday), not "* * *"',
  ],
  [
    'schedule: "H * * * *"',
    '14:15: syncs.staff.schedule: "H" is not a minute: expected 0 to 59, * or */2, also as a list or a range',
  ],
  ['schedule: "0 0 31 2 *"', '14:15: syncs.staff.schedule: expected a day that comes at some time, not "0 0 31 2 *"'],
  ["catchUp: once", '14:14: syncs.staff.catchUp: expected true or false, not "once"'],
  [
    "retries: { attempts: 1000 }",
    "14:26: syncs.staff.retries.attempts: expected a whole number from 0 to 100, not 1000",
  ],
  [
    'schedule: "0 0 1 13 *"',
    '14:15: syncs.staff.schedule: "13" is not a month: expected 1 to 12 or jan to dec, * or */2, also as a list or a range',
  ],
  [
    'schedule: "30 5-25 * * *"',
    '14:15: syncs.staff.schedule: "5-25" is not an hour: expected 0 to 23, * or */2, also as a list or a range',
  ],
  [
    'schedule: "99 * * * *"',
    '14:15: syncs.staff.schedule: "99" is not a minute: expected 0 to 59, * or */2, also as a list or a range',
  ],
  [
    "timezone: Europe/Amsterdan",
    '14:15: syncs.staff.timezone: expected a time zone like Europe/Amsterdam, not "Europe/Amsterdan"',
  ],
  ['timezone: "+02:00"', '14:15: syncs.staff.timezone: expected a time zone like Europe/Amsterdam, not "+02:00"'],
  ["manage: owner", '14:13: syncs.staff.manage: expected owned or everything, not "owner"; did you mean "owned"?'],
  ["protect: { users: svc-* }", '14:23: syncs.staff.protect.users: expected a list like ["svc-*"], not "svc-*"'],
  [
    "protect: { groups: [''] }",
    '14:25: syncs.staff.protect.groups[0]: expected a name, with * for any characters, not ""',
  ],
  ["defaultPassword: 12345678", "14:22: syncs.staff.defaultPassword: expected a password; put it in quotes"],
  [
    "groups: { name: entry.cn, mail: entry.mail }",
    "14:5: syncs.staff.groups.displayName: missing; expected a CEL expression like entry.cn or keys with values",
    "14:31: syncs.staff.groups.mail: unknown key; expected one of: onlyBelow, notBelow, include, exclude, name, displayName, description, groups, rename",
  ],
  [
    "limits: { deletes: 5 percent }",
    '14:24: syncs.staff.limits.deletes: expected a percentage like 5% or 0.5%, a number, or none, not "5 percent"',
  ],
  [
    "limits: { deletes: 110% }",
    '14:24: syncs.staff.limits.deletes: expected at most 100% (`none` sets no limit), not "110%"',
  ],
  [
    "limits: { shrink: { percent: 101 } }",
    "14:23: syncs.staff.limits.shrink: expected at most 100% (`none` sets no limit), not keys with values",
  ],
  [
    "limits: { membershipsLost: { perGroup: half } }",
    '14:44: syncs.staff.limits.membershipsLost.perGroup: expected a percentage like 5% or 0.5%, a number, or none, not "half"',
  ],
  [
    "limits: { membershipsLost: { perGroup: 101% } }",
    '14:44: syncs.staff.limits.membershipsLost.perGroup: expected at most 100% (`none` sets no limit), not "101%"',
  ],
  [
    "memberships: { keepManual: some }",
    '14:32: syncs.staff.memberships.keepManual: expected true, false or a list of groups like ["team-*"], not "some"',
  ],
  [
    "causes: false\nmemberships: { keepManual: true }",
    "15:32: syncs.staff.memberships.keepManual: needs causes; remove `causes: false`",
  ],
  [
    "groupsFromRules: { displayName: entry.site }",
    "14:37: syncs.staff.groupsFromRules.displayName: there is no entry here: a group is made for all who are in it; use value",
  ],
  [
    "groupsFromRules: make",
    '14:22: syncs.staff.groupsFromRules: expected refuse, create or { displayName, description }, not "make"',
  ],
  ["limits: { delete: 5% }", '14:15: syncs.staff.limits.delete: unknown key; did you mean "deletes"?'],
  [
    "limits: { deletes: { counts: 5 } }",
    '14:26: syncs.staff.limits.deletes.counts: unknown key; did you mean "count"?',
  ],
  [
    "limits: { deletes: true }",
    "14:24: syncs.staff.limits.deletes: expected a percentage like 5%, a number like 20, { count, percent, per }, or none, not true",
  ],
  ["deletions: { after: 7 }", "14:25: syncs.staff.deletions.after: expected 0 or a duration like 7d, not 7"],
  ["limits: { minUsers: 0 }", "14:25: syncs.staff.limits.minUsers: expected a whole number, at least 1, not 0"],
  ["limits: { per: week }", '14:20: syncs.staff.limits.per: expected run or day, not "week"'],
  ["limits: { action: apply }", '14:23: syncs.staff.limits.action: expected hold or apply-the-rest, not "apply"'],
  [
    "owner: ada",
    "14:5: syncs.staff.owner: unknown key; expected one of: from, join, to, schedule, timezone, jitter, catchUp, retries, overdueAfter, users, groups, staticGroups, defaultGroups, groupsFromRules, drift, manage, causes, expectations, memberships, protect, deletions, renames, reusedNames, limits, approval, approvalExpires, defaultPassword, export, heartbeat",
  ],
  [
    "approval: sometimes",
    '14:15: syncs.staff.approval: expected required, automatic, automatic-within-limits, or { required, people, beyondLimits, notTheRequester }, not "sometimes"',
  ],
  [
    "approval: { people: 0 }",
    "14:25: syncs.staff.approval.people: expected a whole number of people, from 1 to 10, not 0",
  ],
  [
    "approval: { people: 2, beyondLimits: 1 }",
    "14:42: syncs.staff.approval.beyondLimits: a plan beyond a limit needs at least as many people as any other",
  ],
  [
    "approval: { persons: 2 }",
    "14:17: syncs.staff.approval.persons: unknown key; expected one of: required, people, beyondLimits, notTheRequester",
  ],
  ["export: directory", '14:13: syncs.staff.export: expected keys with values, not "directory"'],
  ["export: {}", "14:5: syncs.staff.export.database: missing; expected the name of a database"],
  [
    "export: { database: '', tables: users }",
    '14:25: syncs.staff.export.database: expected the name of a database, not ""',
    "14:29: syncs.staff.export.tables: unknown key; expected one of: database, schema",
  ],
  [
    "defaultGroups: staff",
    '14:20: syncs.staff.defaultGroups: expected a list of group names like ["everyone"], not "staff"',
  ],
  [
    "staticGroups: { staff: { displayname: Staff } }",
    '14:30: syncs.staff.staticGroups.staff.displayname: unknown key; did you mean "displayName"?',
  ],
  ["staticGroups: { '': {} }", '14:21: syncs.staff.staticGroups[""]: expected a name of 1 to 255 characters'],
];

test.each(sync)("sync: %s", async (lines, ...problems) => {
  expect(await problemsOf(withSync(lines))).toEqual(problems.map((problem) => `rollcall.yaml:${problem}`));
});

test("a misspelt key of a rule is named, and the missing one with its parent's place", async () => {
  expect(await problemsOf(valid.replace("      name:", "      nmae:"))).toEqual([
    "rollcall.yaml:11:5: syncs.staff.users.name: missing; expected a CEL expression like lower(entry.uid), or { value, unique }",
    'rollcall.yaml:12:7: syncs.staff.users.nmae: unknown key; did you mean "name"?',
  ]);
});

test("rules that are no text are problems", async () => {
  expect(await problemsOf(valid.replace("entry.uid", "12").replace("entry.cn", ""))).toEqual([
    "rollcall.yaml:12:13: syncs.staff.users.name: expected a CEL expression like lower(entry.uid), or { value, unique }, not 12",
    "rollcall.yaml:13:7: syncs.staff.users.displayName: expected a CEL expression like entry.cn or keys with values; the key has no value",
  ]);
});

test("what the absence of a value means is one of few words, or a default", async () => {
  const inMail = (mail: string) => problemsOf(valid.replace("entry.cn\n", `entry.cn\n      mail: ${mail}\n`));
  expect(await inMail("{ value: entry.mail, absent: kep }")).toEqual([
    'rollcall.yaml:14:42: syncs.staff.users.mail.absent: expected keep, clear or keys with values, not "kep"; did you mean "keep"?',
  ]);
  expect(await inMail("{ value: 'entri.mail', absent: clear }")).toEqual([
    "rollcall.yaml:14:23: syncs.staff.users.mail.value: Unknown variable: entri; an attribute is read as entry.NAME",
  ]);
  expect(await inMail("{ valu: entry.mail, absent: clear }")).toEqual([
    'rollcall.yaml:14:15: syncs.staff.users.mail.valu: unknown key; did you mean "value"?',
  ]);
  expect(await inMail("{ value: entry.mail }")).toEqual([
    "rollcall.yaml:14:7: syncs.staff.users.mail.absent: missing; expected keep, clear or keys with values",
  ]);
  const { configuration } = await load(
    valid.replace("entry.cn\n", "{ value: entry.cn, absent: { default: Nobody } }\n      mail: { absent: keep }\n"),
  );
  expect(configuration.syncs["staff"]?.rules.users).toEqual({
    name: "entry.uid",
    displayName: { value: "entry.cn", absent: { default: "Nobody" } },
    mail: { absent: "keep" },
  });
  expect(await problemsOf(valid.replace("entry.cn\n", "{ value: entry.cn, absent: clear }\n"))).toEqual([
    'rollcall.yaml:13:47: syncs.staff.users.displayName.absent: expected keep or keys with values, not "clear"',
  ]);
});

test("rules that are no CEL are problems at the place in the expression", async () => {
  const text = withSync(`groups:
  include: 'entry.size > '
  name: "lower(entri.cn)"
  displayName: |
    entry.cn +
  description: \${env:DESCRIPTION}`).replace("entry.uid", "upper(entry.uid))");
  const problems = await problemsOf(text, { environment: { DESCRIPTION: "entry.'hidden'" } });
  expect(problems.map((problem) => problem.replace(/^((?:[^:]*:){4}).*/, "$1"))).toEqual([
    "rollcall.yaml:12:29: syncs.staff.users.name:",
    "rollcall.yaml:15:30: syncs.staff.groups.include:",
    "rollcall.yaml:16:20: syncs.staff.groups.name:",
    "rollcall.yaml:17:20: syncs.staff.groups.displayName:",
    "rollcall.yaml:19:20: syncs.staff.groups.description:",
  ]);
  expect(problems[4]).toMatch(/: the expression from \$\{env:DESCRIPTION\} is not valid$/);
});

test("an unknown section is a problem at its key", async () => {
  expect(await problemsOf("servce:\n  listen: x\nexports:\n")).toEqual([
    'rollcall.yaml:1:1: servce: unknown key; did you mean "service"?',
    "rollcall.yaml:3:1: exports: unknown key; expected one of: service, daemon, control, targets, sources, syncs, journal, notifications, metrics, console",
  ]);
});

test("names of targets, sources and syncs are names of files too", async () => {
  const name = "expected a name of letters, digits, -, _ and . that starts with a letter or a digit (at most 63)";
  expect(await problemsOf('service:\ntargets:\n  "a b": embedded\n  ../x: embedded\n  2: embedded\n')).toEqual([
    `rollcall.yaml:3:3: targets["a b"]: ${name}`,
    `rollcall.yaml:4:3: targets["../x"]: ${name}`,
  ]);
});

test("B.5 names have 1 to 255 characters and no control characters", async () => {
  const names = 'privileges:\n    administration: ["' + "😀".repeat(255) + '", "' + "x".repeat(256) + '", "a\\tb"]';
  expect(await inService(names)).toEqual([
    "rollcall.yaml:3:538: service.privileges.administration[1]: expected a name of 1 to 255 characters, none of them a control character",
    'rollcall.yaml:3:798: service.privileges.administration[2]: expected a name of 1 to 255 characters, none of them a control character, not "a\\tb"',
  ]);
});

test("every problem is said in one go, in the order of the file", async () => {
  const text = `service:
  listen: 0.0.0.0:8442
  dta: x
  data: \${env:NOWHERE}
  data: y
targets: { a: embeded }
sources:
  corp: { connector: lst }
  hr: { connector: list, atLest: 3, gzip: 1 }
syncs:
  staff:
    from: [corp2, hr]
    to: b
    schedule: never
    users: { name: "lower(", displayNam: x }
`;
  const places = (await problemsOf(text)).map((problem) =>
    problem.replace(/^rollcall.yaml:(\S+): (\S+): .*$/, "$1 $2"),
  );
  expect(places).toEqual([
    "2:11 service.listen",
    "3:3 service.dta",
    "4:9 service.data",
    "5:3 service.data",
    "6:15 targets.a",
    "8:22 sources.corp.connector",
    "9:26 sources.hr.atLest",
    "9:43 sources.hr.gzip",
    "12:12 syncs.staff.from[0]",
    "13:9 syncs.staff.to",
    "14:15 syncs.staff.schedule",
    "15:5 syncs.staff.users.displayName",
    "15:27 syncs.staff.users.name",
    "15:30 syncs.staff.users.displayNam",
  ]);
});
