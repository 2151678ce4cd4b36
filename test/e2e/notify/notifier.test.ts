import { mkdir, mkdtemp, readFile, readdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import pino from "pino";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { Channel } from "#notify/options.ts";
import { Heartbeat } from "#notify/heartbeat.ts";
import { Notifier } from "#notify/notifier.ts";
import type { NotifierOptions } from "#notify/notifier.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import { startMailServer } from "../../support/mail.ts";
import type { MailServer } from "../../support/mail.ts";
import { chatTo, emailTo, heldRun, webhookSecret, webhookTo } from "../../support/notices.ts";
import { appliedRun } from "../../support/runs.ts";
import { answer, startScripted, unread } from "../../support/scripted-server.ts";
import type { Arrived, Behaviour, ScriptedServer } from "../../support/scripted-server.ts";
import { noteLines } from "#plan/note.ts";

let folder: string;
let logged: string;
let server: ScriptedServer | undefined;
let mail: MailServer | undefined;
let notifiers: Notifier[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-notify-"));
  logged = "";
  notifiers = [];
});
afterEach(async () => {
  await Promise.all(notifiers.map((each) => each.close()));
  await server?.close();
  await mail?.close();
  server = undefined;
  mail = undefined;
  await rm(folder, { recursive: true });
});

const log = pino(
  { level: "debug" },
  new Writable({
    write(chunk, _encoding, done) {
      logged += String(chunk);
      done();
    },
  }),
);

async function opened(channels: Record<string, Channel>, options: Partial<NotifierOptions> = {}): Promise<Notifier> {
  const patience = { first: 20, longest: 100, most: 60_000 };
  const outbox = join(folder, "outbox");
  const notifier = await Notifier.open(channels, {
    folder: outbox,
    log,
    patience,
    settle: 10,
    closing: () => 500,
    ...options,
  });
  notifiers.push(notifier);
  return notifier;
}
async function hooked(script: Record<string, Behaviour | Behaviour[]>): Promise<string> {
  server = await startScripted(script);
  return server.url;
}
const run = (record: Partial<RunRecord>): SyncEvent => ({ type: "run", run: appliedRun(record) });
const held = run(heldRun);
const bodies = (requests: readonly Arrived[]) => requests.map(({ body }) => JSON.parse(String(body)));
const events = (requests: readonly Arrived[]): string[][] =>
  bodies(requests).map(({ notices }) => notices.map(({ event }: { event: string }) => event));
const waiting = (channel: string): Promise<string[]> => readdir(join(folder, "outbox", "letters", channel));

test("each channel gets what it is for, once; a channel that hangs keeps nobody else waiting", async () => {
  const url = await hooked({ "a/hook": answer(204), "b/hook": answer(204), "c/hook": unread(() => undefined) });
  mail = await startMailServer();
  const { listener } = await opened({
    hanging: chatTo(`${url}/c/hook`),
    all: webhookTo(`${url}/a/hook`),
    guests: webhookTo(`${url}/b/hook`, { syncs: ["guests"], events: ["applied"] }),
    mail: emailTo(mail.port, { events: ["held"] }),
  });
  for (const event of [held, held, run({ id: "2", state: "applied" }), run({ id: "3", sync: "guests" })])
    listener(event);
  listener({ type: "run", run: appliedRun({ id: "4", state: "failed" }) });
  await expect.poll(() => server?.to("a/hook").length).toBe(2);
  await expect.poll(() => server?.to("b/hook").length).toBe(1);
  await expect.poll(() => mail?.arrived.length).toBe(1);
  expect(events(server!.to("a/hook"))).toEqual([["held"], ["failed"]]);
  expect(bodies(server!.to("b/hook"))[0]).toMatchObject({ notices: [{ event: "applied", sync: "guests", run: "3" }] });
  expect(mail.arrived[0]?.subject).toMatch(/^Rollcall: staff: held by the limit on deletions/);
  await expect.poll(() => waiting("all")).toEqual([]);
});

test("what is refused for now arrives later, with the same id; what is refused for good is given up and logged", async () => {
  const script = [answer(500), answer(429, "", { "retry-after": "0" }), answer(204), answer(410, "gone"), answer(204)];
  const url = await hooked({ "a/hook": script });
  const ends: [string, boolean][] = [];
  const ended = (channel: string, sent: boolean): unknown => ends.push([channel, sent]);
  const { listener } = await opened({ hook: webhookTo(`${url}/a/hook`) }, { ended });
  listener(held);
  await expect.poll(() => server?.arrived.length).toBe(3);
  const ids = server!.arrived.map(({ headers }) => headers["x-rollcall-delivery"]);
  expect(new Set(ids).size).toBe(1);
  listener(run({ id: "2", state: "pending", digest: "bb" }));
  await expect.poll(() => logged).toContain("given up: ");
  listener(run({ id: "3", state: "pending", digest: "cc" }));
  await expect.poll(() => server?.arrived.length).toBe(5);
  await expect.poll(() => waiting("hook")).toEqual([]);
  expect(ends).toEqual([true, false, true].map((sent) => ["hook", sent]));
  expect(logged).toMatch(/channel hook: the notice of staff \(held\) not sent yet: .* answered 500/);
});

test("what a stopping process breaks off has not failed", async () => {
  const url = await hooked({ "a/hook": answer(204) });
  let isStopping = true;
  const { listener } = await opened({ hook: webhookTo(`${url}/a/hook`) }, { isStopping: () => isStopping });
  listener(run({ id: "1", state: "failed" }));
  isStopping = false;
  listener(run({ id: "2", state: "failed" }));
  await expect.poll(() => server?.arrived.length).toBe(1);
  expect(bodies(server!.arrived)[0].notices[0]).toMatchObject({ event: "failed", run: "2" });
});

test("a notice that is always refused for now holds up no other", async () => {
  mail = await startMailServer({ messages: [{ code: 451, text: "odd" }, undefined, { code: 451, text: "odd" }] });
  const { listener } = await opened({ mail: emailTo(mail.port) });
  listener(held);
  listener(run({ id: "2", state: "pending", digest: "bb" }));
  await expect.poll(() => mail?.arrived.length).toBe(1);
  expect(mail.arrived[0]?.subject).toContain("a plan awaits approval");
  await expect.poll(() => logged.split("451 odd").length).toBeGreaterThan(3);
  expect(await waiting("mail")).toHaveLength(1);
});

test("what could not be sent is sent after a restart; only its owner may read it meanwhile", async () => {
  const url = await hooked({ "a/hook": [answer(503), answer(503), answer(204)] });
  const channels = { hook: webhookTo(`${url}/a/hook`) };
  const first = await opened(channels, { patience: { first: 60_000, longest: 60_000, most: 600_000 } });
  first.listener(held);
  await expect.poll(() => server?.arrived.length).toBe(1);
  await first.close();
  const [file = ""] = await waiting("hook");
  expect((await stat(join(folder, "outbox", "letters", "hook", file))).mode & 0o077).toBe(0);
  expect(logged).toContain("a notification is stored and sent after the next start");
  // Whatever else lies there is no message.
  await writeFile(join(folder, "outbox", "letters", "hook", "half.json.new"), '{"id":');
  const second = await opened(channels);
  await expect.poll(() => server?.arrived.length).toBe(3);
  await expect.poll(() => waiting("hook")).toEqual([]);
  const ids = server!.arrived.map(({ headers }) => headers["x-rollcall-delivery"]);
  expect(new Set(ids).size).toBe(1);
  // And who was told is still known.
  second.listener(held);
  second.listener(run({ id: "9", state: "expired" }));
  second.listener(run({ ...heldRun, id: "10" }));
  await expect.poll(() => server?.arrived.length).toBe(4);
  expect(bodies(server!.arrived)[3]).toMatchObject({ notices: [{ run: "10" }] });
});

test("what is too old is given up, and what waits for a channel that is gone is thrown away", async () => {
  const url = await hooked({ "a/hook": answer(503) });
  const { listener } = await opened(
    { hook: webhookTo(`${url}/a/hook`) },
    { patience: { first: 20, longest: 20, most: 200 } },
  );
  listener(held);
  await expect.poll(() => logged).toContain("given up: it could not be sent for ");
  await expect.poll(() => waiting("hook")).toEqual([]);
  const gone = join(folder, "outbox", "letters", "gone");
  await mkdir(gone);
  await utimes(gone, 1, 1);
  await opened({});
  expect(await readdir(join(folder, "outbox", "letters"))).toEqual(["hook"]);
});

test("a digest collects over a restart and goes as one; what is excepted goes at once", async () => {
  // Time passes when the test says so.
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const url = await hooked({ "a/hook": answer(204) });
  const channels = {
    hook: webhookTo(`${url}/a/hook`, {
      events: ["held", "applied"],
      digest: { every: 3_600_000, except: ["held"] },
    }),
  };
  const collected = async (): Promise<string[]> => {
    const [file = ""] = await waiting("hook");
    const { notices } = JSON.parse(await readFile(join(folder, "outbox", "letters", "hook", file), "utf8"));
    return notices.map(({ run }: { run: string }) => run);
  };
  const first = await opened(channels);
  first.listener(run({ id: "1" }));
  first.listener(held);
  await expect.poll(() => events(server!.arrived)).toEqual([["held"]]);
  await first.close();
  const second = await opened(channels);
  second.listener(run({ id: "2" }));
  await expect.poll(collected).toEqual(["1", "2"]);
  vi.setSystemTime(Date.now() + 3_600_001);
  second.listener(run({ ...heldRun, id: "3", digest: "cc" }));
  await expect.poll(() => events(server!.arrived)).toEqual([["held"], ["applied", "applied"], ["held"]]);
  expect(bodies(server!.arrived)[1]?.notices).toMatchObject([{ run: "1" }, { run: "2" }]);
  second.listener(run({ id: "4" }));
  await expect.poll(collected).toEqual(["4"]);
  // The clock is set back: its time may be far away.
  vi.setSystemTime(Date.now() - 86_400_000);
  second.listener(run({ ...heldRun, id: "5", digest: "dd" }));
  await expect.poll(() => events(server!.arrived).slice(3)).toHaveLength(2);
  expect(events(server!.arrived).slice(3)).toContainEqual(["applied"]);
});

test("names are in a notice only where a channel wants them", async () => {
  const url = await hooked({ "a/hook": answer(204), "b/hook": answer(204) });
  const asked: string[] = [];
  const { listener } = await opened(
    { with: webhookTo(`${url}/a/hook`, { names: true }), without: webhookTo(`${url}/b/hook`) },
    {
      names: async ({ id }, most) => {
        asked.push(`${most} of ${id}`);
        return ["- user zoe"];
      },
    },
  );
  const error = { message: "held", problems: ["user ada differs"], advice: "stop" };
  listener(run({ ...heldRun, error }));
  await expect.poll(() => server?.arrived.length).toBe(2);
  expect(asked).toEqual([`10 of ${heldRun.id}`]);
  expect(bodies(server!.to("a/hook"))[0].notices[0]).toMatchObject({
    names: ["- user zoe"],
    problems: ["user ada differs"],
    notes: noteLines(heldRun.notes),
  });
  expect(bodies(server!.to("b/hook"))[0].notices[0]).toMatchObject({
    names: [],
    problems: [],
    notes: noteLines(heldRun.notes).slice(0, 1),
  });
});

test("no secret is in the log, nor in what is kept on disk", async () => {
  const password = "m4il-passw0rd";
  mail = await startMailServer({ login: { user: "rollcall", password: "another" } });
  const repeating: Behaviour = (response, { url, headers }) => {
    response.writeHead(500).end(`${url} ${headers["x-rollcall-signature"] === undefined ? "" : webhookSecret}`);
  };
  const url = await hooked({ "services/T0PSECRET": repeating });
  const notifier = await opened({
    hook: webhookTo(`${url}/services/T0PSECRET`),
    chat: chatTo(`${url}/services/T0PSECRET`),
    mail: emailTo(mail.port, { username: "rollcall", password }),
  });
  notifier.listener(held);
  await expect.poll(() => logged).toContain("the login as rollcall was refused");
  await expect.poll(() => server?.arrived.length).toBeGreaterThan(3);
  await notifier.close();
  const kept = await Promise.all(
    ["hook", "chat", "mail"].map(async (channel) => {
      const path = join(folder, "outbox", "letters", channel);
      return (await Promise.all((await readdir(path)).map((name) => readFile(join(path, name), "utf8")))).join("");
    }),
  );
  for (const each of kept) expect(each).toContain(heldRun.id);
  expect(logged + kept.join("")).not.toMatch(/T0PSECRET|5ecret|m4il-passw0rd/);
});

test("a heartbeat follows each success, is tried again, and gives up quietly", async () => {
  const url = await hooked({
    "beat/T0PSECRET": [answer(500), answer(200), answer(500)],
    "slow/beat": unread(() => undefined),
  });
  const heartbeat = new Heartbeat(
    { staff: `${url}/beat/T0PSECRET?msg=OK`, slow: `${url}/slow/beat` },
    { log, pause: 5, timeouts: { connect: 1_000, whole: 60_000 } },
  );
  const beats = (): string[] => server!.to("beat/T0PSECRET").map(({ method, path }) => `${method} ${path}`);
  heartbeat.listener(run({ sync: "slow" }));
  for (const state of ["running", "pending", "held", "failed", "rejected"] as const) heartbeat.listener(run({ state }));
  heartbeat.listener(run({ sync: "other" }));
  heartbeat.listener(run({ state: "no change" }));
  await expect.poll(beats).toEqual(["GET /beat/T0PSECRET?msg=OK", "GET /beat/T0PSECRET?msg=OK"]);
  await expect.poll(() => logged).toContain("heartbeat taken by");
  heartbeat.listener(run({ state: "applied" }));
  await expect.poll(() => logged).toContain("the heartbeat did not arrive");
  expect(beats()).toHaveLength(5);
  await heartbeat.close();
  expect(logged).not.toContain("T0PSECRET");
});
