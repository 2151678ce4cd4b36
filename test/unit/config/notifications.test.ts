import { join } from "node:path";
import { expect, test } from "vitest";
import { load, problemsOf, valid, withSync } from "./support.ts";

const mail = "by: email, server: smtp://mail.example.com, from: rollcall@example.com, to: [ops@example.com]";
const hook = "by: webhook, url: https://hooks.example.com/rollcall, secret: 0123456789abcdef";

/** A file with one channel; it is in line 15. */
const withChannel = (channel: string): string => `${valid}notifications:\n  ops: { ${channel} }\n`;

test("a minimal channel sends what needs attention, at once and without names", async () => {
  const { configuration } = await load(
    `${valid}notifications:\n  mail: { ${mail} }\n  hook: { ${hook} }\n  chat: { by: chat, url: https://chat.example.com/x }\n`,
  );
  const settings = {
    events: ["pending", "held", "failed", "recovered", "overdue"],
    names: false,
    allowPlain: false,
  };
  expect(configuration.notifications).toEqual({
    mail: {
      by: "email",
      server: { host: "mail.example.com", port: 587, tls: false },
      from: "rollcall@example.com",
      to: ["ops@example.com"],
      ...settings,
    },
    hook: { by: "webhook", url: "https://hooks.example.com/rollcall", secret: "0123456789abcdef", ...settings },
    chat: { by: "chat", url: "https://chat.example.com/x", ...settings },
  });
});

test("every option of a channel and of the heartbeat is read", async () => {
  const text = `${withSync("heartbeat: https://beat.example.com/abc?x=1")}notifications:
  mail:
    by: email
    server: smtps://[::1]:2465
    username: rollcall
    password: opensesame
    ca: ca.pem
    from: Rollcall <rollcall@example.com>
    to: [ops@example.com, "Ada Lovelace <ada@example.com>"]
    events: [applied, skipped]
    syncs: [staff]
    names: true
    digest: { every: 1h, except: [held, failed] }
    allowPlain: true
  chat: { by: chat, url: "\${env:CHAT}", digest: 2h }
`;
  const { configuration, folder } = await load(text, {
    files: { "ca.pem": "" },
    environment: { CHAT: "https://chat.example.com/services/T0/B0" },
  });
  expect(configuration.syncs["staff"]?.heartbeat).toBe("https://beat.example.com/abc?x=1");
  expect(configuration.notifications["mail"]).toEqual({
    by: "email",
    server: { host: "[::1]", port: 2465, tls: true },
    username: "rollcall",
    password: "opensesame",
    ca: join(folder, "ca.pem"),
    from: "Rollcall <rollcall@example.com>",
    to: ["ops@example.com", "Ada Lovelace <ada@example.com>"],
    events: ["applied", "skipped"],
    syncs: ["staff"],
    names: true,
    digest: { every: 3_600_000, except: ["held", "failed"] },
    allowPlain: true,
  });
  expect(configuration.notifications["chat"]).toMatchObject({ digest: { every: 7_200_000, except: [] } });
  expect(configuration.secrets).toEqual(
    expect.arrayContaining([
      "opensesame",
      "https://beat.example.com/abc?x=1",
      "https://chat.example.com/services/T0/B0",
    ]),
  );
});

const url = "expected a URL like https://hooks.example.com/rollcall";
const server = "expected a server like smtp://mail.example.com or smtps://mail.example.com";

test.each<[channel: string, ...problems: string[]]>([
  ["by: pigeon", '15:14: notifications.ops.by: expected email, webhook, chat or teams, not "pigeon"'],
  ["url: https://h/x", "15:3: notifications.ops.by: missing; expected email, webhook, chat or teams"],
  [`${hook}, event: [held]`, '15:90: notifications.ops.event: unknown key; did you mean "events"?'],
  [
    `${hook}, events: [hold]`,
    '15:99: notifications.ops.events[0]: expected pending, held, failed, recovered, applied, overdue or skipped, not "hold"; did you mean "held"?',
  ],
  [`${hook}, events: []`, "15:98: notifications.ops.events: expected at least one event"],
  [`${hook}, syncs: [stuff]`, '15:98: notifications.ops.syncs[0]: no sync is called stuff; did you mean "staff"?'],
  [
    `${hook}, digest: 60`,
    "15:98: notifications.ops.digest: expected a duration like 90s, 15m, 3h, 7d or keys with values, not 60",
  ],
  [
    `${hook}, digest: { except: [held] }`,
    "15:90: notifications.ops.digest.every: missing; expected a duration like 90s, 15m, 3h, 7d",
  ],
  [
    "by: webhook, url: https://h/x, secret: short",
    "15:49: notifications.ops.secret: expected a secret of at least 16 characters",
  ],
  ["by: chat, url: ftp://h/T0PS3CRET", `15:25: notifications.ops.url: ${url}`],
  [
    "by: chat, url: https://user:pass@h/x",
    "15:25: notifications.ops.url: the URL must not contain a user name or a password; remove them",
  ],
  [
    "by: chat, url: http://chat.example.com/x",
    "15:25: notifications.ops.url: requests would cross the network unencrypted; use an https URL, or allowPlain: true",
  ],
  [
    "by: chat, url: https://prod-1.westeurope.logic.azure.com:443/workflows/T0PS3CRET",
    "15:25: notifications.ops.url: is an address of Microsoft Teams, which needs by: teams",
  ],
  [
    "by: chat, url: https://h/x, ca: none.pem",
    "15:42: notifications.ops.ca: none.pem does not exist (looked in FOLDER)",
  ],
  [
    mail.replace("smtp://mail.example.com", "mail.example.com"),
    `15:29: notifications.ops.server: ${server}, not "mail.example.com"`,
  ],
  [
    mail.replace("smtp://", "smtp://u:p@"),
    "15:29: notifications.ops.server: the address must not contain a user name or a password; use the keys username and password",
  ],
  [mail.replace("to: [ops@example.com]", "to: []"), "15:86: notifications.ops.to: expected at least one address"],
  [
    mail.replace("[ops@example.com]", "[ops]"),
    '15:87: notifications.ops.to[0]: expected an address like ops@example.com or Operations <ops@example.com>, not "ops"',
  ],
  [`${mail}, username: rollcall`, "15:115: notifications.ops.username: needs a password as well"],
  [`${mail}, password: x`, "15:115: notifications.ops.password: needs a username as well"],
])("notifications: %s", async (channel, ...problems) => {
  expect(await problemsOf(withChannel(channel))).toEqual(problems.map((problem) => `rollcall.yaml:${problem}`));
});

test("plain HTTP to this machine needs no leave, and with allowPlain none does", async () => {
  const chat = "by: chat, url: http://127.0.0.1:8080/x";
  for (const each of [chat, `${chat.replace("127.0.0.1", "chat.example.com")}, allowPlain: true`]) {
    const { configuration } = await load(withChannel(each));
    expect(configuration.notifications["ops"]).toMatchObject({ by: "chat" });
  }
});

test("a heartbeat crosses no network in the clear", async () => {
  expect(await problemsOf(withSync("heartbeat: http://beat.example.com/abc"))).toEqual([
    "rollcall.yaml:14:16: syncs.staff.heartbeat: requests would cross the network unencrypted; use an https URL",
  ]);
  const { configuration } = await load(withSync("heartbeat: http://localhost:8080/abc"));
  expect(configuration.syncs["staff"]?.heartbeat).toBe("http://localhost:8080/abc");
});
