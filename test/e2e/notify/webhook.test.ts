import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { noticeOfRun } from "#notify/notice.ts";
import { chatSender, teamsSender, webhookSender } from "#notify/webhook.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { chatTo, heldRun, messageWith, teamsTo, webhookSecret, webhookTo } from "../../support/notices.ts";
import { answer, startScripted, unread } from "../../support/scripted-server.ts";
import type { Behaviour, ScriptedServer } from "../../support/scripted-server.ts";
import { startRawServer } from "../../support/mail.ts";
import { appliedRun } from "../../support/runs.ts";
import { noteLines } from "#plan/note.ts";

const never = new AbortController().signal;
const path = "/services/T0PSECRET";
let server: ScriptedServer | undefined;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-hook-"));
});
afterEach(async () => {
  await server?.close();
  server = undefined;
  await rm(folder, { recursive: true });
});

async function started(...behaviours: Behaviour[]): Promise<ScriptedServer> {
  server = await startScripted({ "services/T0PSECRET": behaviours });
  return server;
}

test("a notice is posted as JSON, with a signature that whoever knows the secret can check", async () => {
  const { url, arrived } = await started(answer(204));
  const message = messageWith();
  const before = Math.floor(Date.now() / 1000);
  expect(await webhookSender(webhookTo(url + path)).send(message, never)).toEqual({ accepted: `${url} (204)` });
  const [request] = arrived;
  expect(request).toMatchObject({
    method: "POST",
    path,
    headers: { "content-type": "application/json", "user-agent": "rollcall", "x-rollcall-delivery": message.id },
  });
  const [, t = "", v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(request?.headers["x-rollcall-signature"])) ?? [];
  expect(Number(t)).toBeGreaterThanOrEqual(before);
  expect(v1).toBe(createHmac("sha256", webhookSecret).update(`${t}.`).update(request!.body).digest("hex"));
  expect(JSON.parse(String(request?.body))).toEqual({
    version: 1,
    delivery: message.id,
    host: hostname(),
    more: 0,
    notices: [
      {
        id: message.notices[0]?.id,
        event: "held",
        at: message.notices[0]?.at,
        sync: "staff",
        target: "analytics",
        run: heldRun.id,
        summary: expect.stringMatching(/^held by the limit on deletions/),
        counts: heldRun.counts,
        limits: [heldRun.limits[0]],
        causes: [
          { id: "c1", kind: "gone", source: "corp", users: 39, groups: 0 },
          { id: "c2", kind: "membership", attribute: "Tigers", users: 1, groups: 0 },
        ],
        notes: noteLines(heldRun.notes),
        problems: [],
        names: ["- user zoe"],
        digest: heldRun.digest,
        expiresAt: heldRun.expiresAt,
        next: expect.arrayContaining([`rollcall show ${heldRun.id}`]),
      },
    ],
  });
});

test("a chat gets a text that links nothing and calls nobody", async () => {
  const { url, arrived } = await started(answer(200, "ok"));
  const foreign = appliedRun({ ...heldRun, target: "analytics" });
  const notice = noticeOfRun("held", foreign, {
    names: ["- user <!channel> @here & co", "- user [x](https://example.net)"],
  });
  expect(await chatSender(chatTo(url + path)).send(messageWith(notice), never)).toEqual({ accepted: `${url} (200)` });
  expect(JSON.parse(String(arrived[0]?.body))).toEqual({
    text: `staff: held by the limit on deletions; nothing was applied; planned were 3 users created, 1 deleted; 1 group updated; 4 memberships added (run ${heldRun.id}, expires 2026-11-22 10:12 UTC)
• deletes: 40 users in 24 hours, 5 of them already, at most 10 (10% of 100)
• - user &lt;!channel&gt; @\u200Bhere &amp; co
• - user [x]\u200B(https://example.net)
\`rollcall show ${heldRun.id}\`
\`rollcall approve ${heldRun.id} --override deletes\`
\`rollcall reject ${heldRun.id} --reason "…"\`
_Rollcall on ${hostname()}_`,
  });
});

/** What a chat in Teams is sent, and the texts of its card. */
function cardIn(body: string): { readonly message: object; readonly texts: readonly string[] } {
  const message = JSON.parse(body);
  const { body: blocks } = message.attachments[0].content;
  return {
    message,
    texts: blocks.flatMap(({ inlines }: { inlines: { text: string }[] }) => inlines.map(({ text }) => text)),
  };
}

test("a chat in Teams gets an Adaptive Card, whose texts are neither Markdown nor links", async () => {
  const { url, arrived } = await started(answer(202));
  const foreign = appliedRun({ ...heldRun, target: "analytics" });
  const notice = noticeOfRun("held", foreign, { names: ["- user [x](https://evil.example) **b**"] });
  const sender = teamsSender(teamsTo(url + path));
  expect(await sender.send(messageWith(notice), never)).toEqual({ accepted: `${url} (202)` });
  const { message, texts } = cardIn(String(arrived[0]?.body));
  expect(message).toMatchObject({
    type: "message",
    attachments: [
      {
        contentType: "application/vnd.microsoft.card.adaptive",
        content: { type: "AdaptiveCard", version: "1.4", body: expect.arrayContaining([]) },
      },
    ],
  });
  expect(texts).toContain("• - user [x](https://evil.example) **b**");
  expect(texts).toContain(`rollcall show ${heldRun.id}`);
  expect(texts.at(-1)).toBe(`Rollcall on ${hostname()}`);
  expect(JSON.stringify(message)).not.toContain('"TextBlock"');
});

test("a card is no larger than Teams takes, and says how many notices are left", async () => {
  const { url, arrived } = await started(answer(202));
  const names = Array.from({ length: 20 }, (_, index) => `- user ${"x".repeat(200)}${index}`);
  const notices = Array.from({ length: 30 }, () => noticeOfRun("held", appliedRun(heldRun), { names }));
  await teamsSender(teamsTo(url + path)).send(messageWith(...notices), never);
  const body = String(arrived[0]?.body);
  expect(Buffer.byteLength(body)).toBeLessThan(28_000);
  expect(cardIn(body).texts.find((text) => text.includes("more:"))).toMatch(/^… and \d+ more:$/);
});

test.each<[status: number, again: boolean, headers?: Record<string, string>, after?: number]>([
  [400, false],
  [401, false],
  [404, false],
  [410, false],
  [408, true],
  [425, true],
  [429, true, { "retry-after": "7" }, 7_000],
  [500, true],
  [503, true, { "retry-after": "0" }, 0],
])("an answer %i: tried again is %s", async (status, again, headers = {}, after) => {
  const { url } = await started(answer(status, "<html><b>no\u202E</b>  such thing</html>", headers));
  expect(await webhookSender(webhookTo(url + path)).send(messageWith(), never)).toEqual({
    problem: expect.stringMatching(
      `^${url} answered ${status} \\(no\\\\u\\{202e\\} such thing\\)${again ? "$" : "; look at the address"}`,
    ),
    again,
    ...(after === undefined ? {} : { after }),
  });
});

test("what an answer repeats of address and secret is not shown", async () => {
  const { url } = await started((response, request) => {
    response
      .writeHead(404)
      .end(`Cannot POST ${request.url} at ${url}${path}?token=t0ken%2Fvalue t0ken/value ${webhookSecret}`);
  });
  const channel = webhookTo(`${url}${path}?token=t0ken%2Fvalue`);
  const result = await webhookSender(channel).send(messageWith(), never);
  expect(result).toMatchObject({ problem: expect.stringContaining("Cannot POST"), again: false });
  expect(JSON.stringify(result)).not.toMatch(/T0PSECRET|t0ken|5ecret/);
});

test("a redirection is not followed: what it would tell somebody else is not told", async () => {
  const { url, arrived } = await started(answer(307, "", { location: "https://elsewhere.example.com/T0PSECRET" }));
  expect(await webhookSender(webhookTo(url + path)).send(messageWith(), never)).toEqual({
    problem: `${url} points to https://elsewhere.example.com (307), which is not followed: give the address itself`,
    again: false,
  });
  expect(arrived).toHaveLength(1);
});

test("a receiver that hangs, drips or is none is not waited for, and may be tried again", async () => {
  const hanging = unread(() => undefined);
  const { url } = await started(hanging);
  const dripping = await startRawServer((socket) => {
    socket.write("HTTP/1.1 200 OK\r\n");
    const timer = setInterval(() => socket.write("x-drip: 1\r\n"), 50);
    socket.once("close", () => clearInterval(timer));
  });
  const foreign = await startRawServer((socket) => socket.end("220 mail.example.com ESMTP\r\n"));
  const sent = (to: string, whole = 60_000) =>
    chatSender(chatTo(to + path), { connect: 60_000, whole }).send(messageWith(), never);
  try {
    expect(await sent(url, 700)).toEqual({ problem: `${url}: no answer within 700 ms`, again: true });
    const drip = `http://127.0.0.1:${dripping.port}`;
    expect(await sent(drip, 700)).toEqual({ problem: `${drip}: no answer within 700 ms`, again: true });
    expect(await sent(`http://127.0.0.1:${foreign.port}`)).toMatchObject({
      problem: expect.stringContaining("answered something that is not HTTP"),
      again: true,
    });
  } finally {
    await dripping.close();
    await foreign.close();
  }
  expect(await sent(`http://127.0.0.1:${foreign.port}`)).toMatchObject({
    problem: expect.stringMatching(/nothing listens at .*ECONNREFUSED/),
    again: true,
  });
  const abort = new AbortController();
  const sending = chatSender(chatTo(url + path)).send(messageWith(), abort.signal);
  abort.abort(new Error("enough"));
  await expect(sending).rejects.toThrow("enough");
});

test("an answer that has begun well is enough, however long the rest takes; of a refusal only the beginning is read", async () => {
  const endless: (status: number) => Behaviour = (status) => (response) => {
    response.writeHead(status);
    const timer = setInterval(() => response.write("x".repeat(1000)), 5);
    response.once("close", () => clearInterval(timer));
  };
  const { url, open } = await started(endless(200), endless(400));
  const sender = chatSender(chatTo(url + path));
  expect(await sender.send(messageWith(), never)).toEqual({ accepted: `${url} (200)` });
  expect(await sender.send(messageWith(), never)).toMatchObject({
    problem: expect.stringContaining("xxx"),
    again: false,
  });
  await expect.poll(() => open.size).toBe(0);
});

test("a certificate is checked against the channel's own authority", async () => {
  const tls = await makeCertificate({ ip: ["127.0.0.1"] });
  const ca = join(folder, "ca.pem");
  await writeFile(ca, tls.cert);
  server = await startScripted({ "services/T0PSECRET": answer(200) }, tls);
  const { url } = server;
  expect(await chatSender(chatTo(url + path)).send(messageWith(), never)).toEqual({
    problem: expect.stringMatching(
      /the certificate of .* is not from an authority that is trusted here .* the channel's `ca`$/,
    ),
    again: true,
  });
  expect(server.arrived).toHaveLength(0);
  expect(await chatSender(chatTo(url + path, { ca })).send(messageWith(), never)).toHaveProperty("accepted");
  expect(await chatSender(chatTo(url + path, { ca: join(folder, "none") })).send(messageWith(), never)).toMatchObject({
    problem: expect.stringMatching(/^the file of certificates .*none does not exist/),
  });
});
