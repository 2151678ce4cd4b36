import { once } from "node:events";
import { createServer } from "node:http";
import { connect, Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Readable } from "node:stream";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { EventStreams } from "#control/events.ts";

let streams: EventStreams;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  streams = new EventStreams();
});
afterEach(() => {
  streams.close();
  vi.useRealTimers();
});

const as = (account: string, isAllowed = async (): Promise<boolean> => true): Readable =>
  streams.open(undefined, { account, isAllowed });

test("a stream ends with its session, and has nothing of what happened after that", async () => {
  let isAllowed = true;
  const stream = as("ada", async () => isAllowed);
  const command = streams.open(undefined);
  const all = text(stream);
  streams.publish("run", { id: "before" });
  await vi.waitFor(() => {
    expect(stream.readableLength).toBe(0);
  });
  isAllowed = false;
  streams.publish("run", { id: "after" });
  const received = await all;
  expect(received).toContain("before");
  expect(received).not.toContain("after");
  streams.close();
  expect(await text(command)).toContain("after");
});

test("a stream ends with its session where nothing happens, and where it cannot be looked up", async () => {
  let isAllowed = true;
  const ends = text(as("ada", async () => isAllowed));
  const fails = text(
    as("eve", async () => {
      throw new Error("the store is away");
    }),
  );
  isAllowed = false;
  vi.advanceTimersByTime(2_000);
  expect(await ends).toContain("listening");
  expect(await fails).toContain("listening");
});

test("a stream that has ended leaves nothing at its connection, which may be used again", async () => {
  const client = new Socket();
  const before = client.listenerCount("end");
  const stream = streams.open(undefined, undefined, client);
  expect(client.listenerCount("end")).toBe(before + 1);
  stream.destroy();
  await once(stream, "close");
  expect(client.listenerCount("end")).toBe(before);
});

test("an account has a share of the streams", async () => {
  const own = Array.from({ length: 64 }, () => as("eve"));
  expect(() => as("eve")).toThrow("64 clients listen already with the account eve");
  as("ada").destroy();
  streams.open(undefined).destroy();
  own[0]?.destroy();
  await vi.waitFor(() => as("eve"));
});

test("what was published before the end is sent", async () => {
  const all = text(as("ada"));
  for (let count = 0; count < 3; count++) streams.publish("run", { count });
  streams.close();
  expect((await all).match(/"count"/g)).toHaveLength(3);
});

test("who has closed its side, as a browser does that leaves a page, is asked whether it is there: without waiting for the next heartbeat", async () => {
  const opened = Promise.withResolvers<Readable>();
  const server = createServer((request, response) => {
    const isAllowed = async (): Promise<boolean> => true;
    const stream = streams.open(undefined, { account: "ada", isAllowed }, request.socket);
    stream.pipe(response);
    response.once("close", () => stream.destroy());
    opened.resolve(stream);
  });
  // As the service's, which takes a client that sends nothing more for one that waits.
  Object.assign(server, { httpAllowHalfOpen: true });
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(client, "data");
  const stream = await opened.promise;
  client.destroy();
  await once(stream, "close");
  expect(stream.destroyed).toBe(true);
});
