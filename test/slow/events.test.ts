import { once } from "node:events";
import { connect } from "node:net";
import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startControl } from "../support/control.ts";
import type { ControlServer } from "../support/control.ts";
import { openManualCoordinator } from "../support/coordinator.ts";
import type { ManualCoordinator } from "../support/coordinator.ts";
import type { SyncEvent } from "#state/record.ts";

let coordinator: ManualCoordinator;
let server: ControlServer;

beforeEach(async () => {
  coordinator = openManualCoordinator();
  server = await startControl(coordinator);
});
afterEach(() => server.stop());

interface Listener {
  readonly events: EventSourceMessage[];
  /** Resolves when so many have arrived. */
  heard(count: number): Promise<void>;
  readonly ended: Promise<void>;
  end(): void;
}

async function listen(lastId?: string): Promise<Listener> {
  const controller = new AbortController();
  const answer = await server.request("/control/v1/events", {
    headers: lastId === undefined ? {} : { "last-event-id": lastId },
    signal: controller.signal,
  });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  const read = async (): Promise<void> => {
    for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) parser.feed(chunk);
  };
  const ended = read().catch(() => undefined);
  return {
    events,
    heard: (count) => expect.poll(() => events.length, { interval: 2 }).toBeGreaterThanOrEqual(count),
    ended,
    end: () => {
      controller.abort();
    },
  };
}

function stage(records: number, sync = "staff"): SyncEvent {
  return { type: "stage", id: "x", sync, stage: "read", records };
}

test("everything that happens is told, in its order, each with an id", async () => {
  const listener = await listen();
  await listener.heard(1);
  expect(listener.events[0]).toMatchObject({ event: "listening", data: "{}" });
  const happened: SyncEvent[] = [
    stage(1),
    { type: "gave up", sync: "staff", id: "x", failures: 3 },
    { type: "skipped", sync: "zoë\n", at: "2026-11-21T10:00:00Z", reason: "a\nb" },
  ];
  for (const event of happened) coordinator.emit(event);
  await listener.heard(4);
  expect(listener.events.slice(1).map(({ event }) => event)).toEqual(["stage", "gave up", "skipped"]);
  expect(listener.events.slice(1).map(({ data }) => JSON.parse(data) as unknown)).toEqual(happened);
  expect(new Set(listener.events.map(({ id }) => id)).size).toBe(4);
  listener.end();
});

test("a listener that comes back hears what it has missed, once", async () => {
  const first = await listen();
  coordinator.emit(stage(1));
  await first.heard(2);
  first.end();
  for (const number of [2, 3, 4]) coordinator.emit(stage(number));
  const second = await listen(first.events.at(-1)!.id);
  coordinator.emit(stage(5));
  await second.heard(5);
  expect(second.events.map(({ event }) => event)).toEqual(["listening", "stage", "stage", "stage", "stage"]);
  expect(second.events.slice(1).map(({ data }) => (JSON.parse(data) as { records: number }).records)).toEqual([
    2, 3, 4, 5,
  ]);
  // What comes first has an id of its own to come back with: the one before what follows.
  const third = await listen(second.events[0]!.id);
  await third.heard(5);
  expect(third.events.slice(1).map(({ data }) => (JSON.parse(data) as { records: number }).records)).toEqual([
    2, 3, 4, 5,
  ]);
  const fourth = await listen(third.events.at(-1)!.id);
  await fourth.heard(1);
  expect(fourth.events[0]).toMatchObject({ event: "listening", id: third.events.at(-1)!.id });
  for (const listener of [second, third, fourth]) listener.end();
});

test.each(["an id from before everything", "an id of another daemon", "no id at all"])(
  "where what was missed is not known any more, it is said: %s",
  async (kind) => {
    const first = await listen();
    await first.heard(1);
    first.end();
    for (let number = 0; number < 600; number++) coordinator.emit(stage(number));
    const id = {
      "an id from before everything": first.events[0]!.id!,
      "an id of another daemon": "abc-1",
      "no id at all": "'",
    };
    const second = await listen(id[kind as keyof typeof id]);
    coordinator.emit(stage(1000));
    await second.heard(2);
    expect(second.events.map(({ event }) => event)).toEqual(["missed", "stage"]);
    second.end();
  },
);

test("a listener that does not read is dropped; the others hear everything", async () => {
  const { port } = new URL(server.url);
  const slow = connect({ port: Number(port), host: "127.0.0.1" });
  slow.on("error", () => undefined).pause();
  slow.write(`GET /control/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${server.token}\r\n\r\n`);
  const listener = await listen();
  await listener.heard(1);
  const many = 100;
  for (let number = 0; number < many; number++) {
    coordinator.emit(stage(number, "x".repeat(256 * 1024)));
    await listener.heard(number + 2);
  }
  let read = 0;
  slow.on("data", (piece: Buffer) => {
    read += piece.length;
  });
  slow.resume();
  await once(slow, "close");
  expect(read).toBeLessThan(many * 256 * 1024);
  expect(listener.events.length).toBe(many + 1);
  listener.end();
});

test("no more than so many listen at once, and a place becomes free when one goes", async () => {
  // Commands of the machine have one account, without a bound of its own.
  const listeners = await Promise.all(Array.from({ length: 512 }, () => listen()));
  const refused = await server.request("/control/v1/events");
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "10"]);
  listeners[0]!.end();
  await expect
    .poll(async () => {
      const answer = await server.request("/control/v1/events");
      await answer.body?.cancel();
      return answer.status;
    })
    .toBe(200);
  for (const listener of listeners) listener.end();
});

test("when the daemon stops, the streams end", async () => {
  const listener = await listen();
  await listener.heard(1);
  const stopped = server.stop();
  await listener.ended;
  await stopped;
  expect(listener.events.map(({ event }) => event)).toEqual(["listening"]);
  server = await startControl(coordinator);
});
