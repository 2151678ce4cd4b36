import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { emailSender } from "#notify/email.ts";
import type { MailTimeouts } from "#notify/email.ts";
import { noticeOfRun } from "#notify/notice.ts";
import { makeCertificate } from "../../support/certificates.ts";
import type { Certificate } from "../../support/certificates.ts";
import { startMailServer, startRawServer } from "../../support/mail.ts";
import type { MailServer, MailServerOptions } from "../../support/mail.ts";
import { emailTo, heldRun, messageWith } from "../../support/notices.ts";
import { appliedRun } from "../../support/runs.ts";

const never = new AbortController().signal;
const login = { user: "rollcall", password: "p4ss w0rd of m4il" };
const credentials = { username: login.user, password: login.password };

let folder: string;
let tls: Certificate;
let ca: string;
let servers: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-mail-"));
  tls = await makeCertificate({ ip: ["127.0.0.1"], dns: ["localhost"] });
  ca = join(folder, "ca.pem");
  await writeFile(ca, tls.cert);
});
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  servers = [];
});
afterAll(() => rm(folder, { recursive: true }));

async function started(options: MailServerOptions = {}): Promise<MailServer> {
  const server = await startMailServer(options);
  servers.push(server);
  return server;
}

test("a notice arrives over STARTTLS with a login: what happened, the limits, what to do next", async () => {
  const server = await started({ tls, login });
  const message = messageWith();
  const sender = emailSender(
    emailTo(server.port, { ...credentials, ca, to: ["ops@example.com", "Ada <ada@example.com>"] }),
  );
  const result = await sender.send(message, never);
  expect(result).toEqual({
    accepted: `127.0.0.1:${server.port} for ops@example.com, ada@example.com (250 OK: queued as 4F9C2E)`,
  });
  const [mail] = server.arrived;
  expect(mail).toMatchObject({
    encrypted: true,
    user: "rollcall",
    recipients: ["ops@example.com", "ada@example.com"],
    from: { name: "Rollcall", address: "rollcall@example.com" },
    to: [{ address: "ops@example.com" }, { name: "Ada", address: "ada@example.com" }],
    messageId: `<${message.id}@example.com>`,
    references: `<run.${heldRun.id}@example.com>`,
  });
  expect(mail?.subject).toBe(
    "Rollcall: staff: held by the limit on deletions; nothing was applied; planned were 3 users created, 1 deleted; 1 group updated; 4 memberships added",
  );
  const header = (key: string): string | undefined => mail?.headers.find((each) => each.key === key)?.value;
  expect(header("auto-submitted")).toBe("auto-generated");
  expect(header("x-rollcall-event")).toBe("held");
  expect(mail?.html).toBeUndefined();
  expect(mail?.text?.replaceAll("\r\n", "\n")).toBe(`${mail?.subject?.replace("Rollcall: ", "")}

When:    ${message.notices[0]?.at.slice(0, 16).replace("T", " ")} UTC
Target:  analytics
Run:     20261121-101235-4f9c2e
Digest:  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
Expires: 2026-11-22 10:12 UTC

Limits that are tripped:
  deletes: 40 users in 24 hours, 5 of them already, at most 10 (10% of 100)

Causes:
  39 users: gone from corp
  1 user: members of Tigers changed in the source

Changes, among others:
  - user zoe

Notes:
  2 records quarantined: they stay unchanged in the target
    user zoe (people.csv:4): <two> @here

What to do next:
  rollcall show 20261121-101235-4f9c2e
  rollcall approve 20261121-101235-4f9c2e --override deletes
  rollcall reject 20261121-101235-4f9c2e --reason "…"

-- 
Rollcall on ${hostname()}
`);
});

test("notices of one run are one thread, and foreign text can do nothing in a message", async () => {
  const server = await started();
  const sender = emailSender(emailTo(server.port));
  const failed = appliedRun({
    state: "failed",
    error: { message: "source corp: \u001B[31mred\r\nBcc: x@example.com", problems: ["\u202Eabc"], advice: "fix" },
  });
  await sender.send(messageWith(), never);
  await sender.send(messageWith(noticeOfRun("failed", failed)), never);
  const [first, second] = server.arrived;
  expect(second?.references).toBe(first?.references);
  expect(second?.messageId).not.toBe(first?.messageId);
  expect(second?.bcc).toBeUndefined();
  expect(second?.recipients).toEqual(["ops@example.com"]);
  expect(second?.subject).toBe(String.raw`Rollcall: staff: failed: source corp: \u{001b}[31mred\u{000d}`);
  expect(second?.text).toContain(String.raw`\u{202e}abc`);
});

test("TLS from the start; a server that is not trusted gets neither login nor message", async () => {
  const server = await started({ tls, secure: true, login });
  const channel = emailTo(server.port, { ...credentials, server: { host: "127.0.0.1", port: server.port, tls: true } });
  expect(await emailSender({ ...channel, ca }).send(messageWith(), never)).toHaveProperty("accepted");
  expect(await emailSender(channel).send(messageWith(), never)).toEqual({
    problem: expect.stringMatching(
      /certificate of 127.0.0.1:\d+ is not from an authority that is trusted here .*channel's `ca`$/,
    ),
    again: true,
  });
  expect(server.arrived).toHaveLength(1);
});

test("without STARTTLS nothing is sent to another machine, unless that is allowed", async () => {
  const server = await started();
  // A server of this machine that is not known to be one.
  const elsewhere = { server: { host: "0.0.0.0", port: server.port, tls: false } };
  expect(await emailSender(emailTo(server.port, elsewhere)).send(messageWith(), never)).toEqual({
    problem: expect.stringMatching(
      /the server offers no encryption \(STARTTLS\).*use another port or smtps:\/\/, or set allowPlain: true$/,
    ),
    again: true,
  });
  const allowed = emailTo(server.port, { ...elsewhere, allowPlain: true });
  expect(await emailSender(allowed).send(messageWith(), never)).toHaveProperty("accepted");
  expect(server.arrived).toMatchObject([{ encrypted: false }]);
});

test("a login that is refused says so without the password, even when the server repeats it", async () => {
  const server = await started({ tls, login });
  const channel = emailTo(server.port, { username: "rollcall", password: "wr0ng-passw0rd", ca });
  for (const result of [
    await emailSender(channel).send(messageWith(), never),
    await emailSender(channel).check(never),
  ]) {
    expect(result).toEqual({
      problem: expect.stringMatching(
        /the login as rollcall was refused \(535 .*\*\*\*\): check username and password$/,
      ),
      again: true,
    });
    expect(JSON.stringify(result)).not.toContain("wr0ng");
  }
  expect(await emailSender({ ...channel, ...credentials }).check(never)).toEqual({
    accepted: `reached 127.0.0.1:${server.port}, logged in as rollcall`,
  });
});

test("what is refused for now is tried again, what is refused for good is not", async () => {
  const server = await started({
    recipients: [{ code: 450, text: "greylisted, come back later" }, { code: 550, text: "no such user" }, undefined],
    messages: [{ code: 452, text: "disk full" }, { code: 554, text: "looks like spam" }, undefined],
  });
  const sender = emailSender(emailTo(server.port));
  const results = [];
  for (let count = 0; count < 5; count += 1) results.push(await sender.send(messageWith(), never));
  expect(results).toEqual([
    { problem: expect.stringMatching(/does not accept the message now .*450 greylisted/), again: true },
    {
      problem: expect.stringMatching(/refuses the message for good .*550 no such user\): check from and to$/),
      again: false,
    },
    { problem: expect.stringMatching(/does not accept the message now .*452 disk full/), again: true },
    { problem: expect.stringMatching(/refuses the message for good .*554 looks like spam/), again: false },
    { accepted: expect.any(String) },
  ]);
});

test("when some recipients are refused, the others get it and it is said who does not", async () => {
  const server = await started({ recipients: [undefined, { code: 550, text: "no such user" }] });
  const channel = emailTo(server.port, { to: ["ops@example.com", "gone@example.com"] });
  expect(await emailSender(channel).send(messageWith(), never)).toEqual({
    accepted: expect.stringContaining("for ops@example.com ("),
    warning: `127.0.0.1:${server.port} refused gone@example.com`,
  });
});

/** In milliseconds. Beside the one that is to pass, none may, however busy the machine is. */
const long = { connect: 60_000, silence: 60_000, whole: 60_000 };

test("a server that hangs, drips or is none is not waited for", async () => {
  const silent = await startRawServer(() => undefined);
  const dripping = await startRawServer((socket) => {
    socket.write("220 mail.example.com\r\n");
    const timer = setInterval(() => socket.write("250-still there\r\n"), 50);
    socket.once("close", () => clearInterval(timer));
  });
  const closing = await startRawServer((socket) => socket.destroy());
  const foreign = await startRawServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  servers.push(silent, dripping, closing, foreign);
  const sent = (port: number, timeouts: Partial<MailTimeouts> = {}) =>
    emailSender(emailTo(port), { ...long, ...timeouts }).send(messageWith(), never);
  expect(await sent(silent.port, { silence: 300 })).toEqual({
    problem: `127.0.0.1:${silent.port}: the server said nothing for 300 ms: is the port right, and is it smtp://?`,
    again: true,
  });
  expect(await sent(dripping.port, { whole: 700 })).toEqual({
    problem: `127.0.0.1:${dripping.port}: the server did not accept it within 700 ms`,
    again: true,
  });
  const checked = await emailSender(emailTo(dripping.port), { ...long, whole: 700 }).check(never);
  expect(checked).toMatchObject({ again: true });
  expect(await sent(closing.port)).toMatchObject({ problem: expect.any(String), again: true });
  expect(await sent(foreign.port)).toMatchObject({ problem: expect.any(String), again: true });
  await closing.close();
  servers = servers.filter((server) => server !== closing);
  expect(await sent(closing.port)).toEqual({
    problem: expect.stringMatching(/nothing listens at 127.0.0.1:\d+ \(ECONNREFUSED\)/),
    again: true,
  });
});

test("what is given up from outside ends at once", async () => {
  const silent = await startRawServer(() => undefined);
  servers.push(silent);
  const abort = new AbortController();
  const sending = emailSender(emailTo(silent.port)).send(messageWith(), abort.signal);
  abort.abort(new Error("enough"));
  await expect(sending).rejects.toThrow("enough");
});
