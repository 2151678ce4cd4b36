import { createReadStream } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { setImmediate } from "node:timers/promises";
import { pino } from "pino";
import { expect, test } from "vitest";
import { Work } from "#http/server.ts";
import { acceptsGzip, createServiceServer, freeSent } from "#service/server/families.ts";

test.each([
  ["gzip", true],
  ["GZIP", true],
  ["x-gzip", true],
  ["br, gzip", true],
  ["gzip;q=0.1, br;q=1.0", true],
  ["gzip ; q = 0.5", true],
  ["*", true],
  ["identity, *;q=0.5", true],
  ["gzip, *;q=0", true],
  ["gzip;q=0", false],
  ["gzip;q=0.000", false],
  ["gzip;q=0, *", false],
  ["*;q=0", false],
  ["br", false],
  ["identity", false],
  ["", false],
  [undefined, false],
])("B.10 Accept-Encoding: %s", (header, accepted) => {
  expect(acceptsGzip(header)).toBe(accepted);
});

test("a full disk is logged with what to do, without a stack; what nobody expected has one", async () => {
  const lines: string[] = [];
  const app = await createServiceServer({
    prefixes: [""],
    work: new Work(),
    log: pino({}, { write: (line: string) => void lines.push(line) }),
  });
  app.get("/full", async () => {
    throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  });
  app.get("/unexpected", async () => {
    throw new Error("odd");
  });
  expect((await app.inject("/full")).statusCode).toBe(507);
  expect((await app.inject("/unexpected")).statusCode).toBe(500);
  await app.close();
  const logged = lines
    .map((line): unknown => JSON.parse(line))
    .filter((line) => JSON.stringify(line).includes('"level":50'));
  expect(logged).toEqual([
    expect.objectContaining({
      msg: expect.stringContaining("Make room on the disk with the data folder"),
      reason: "ENOSPC: no space left on device, write",
    }),
    expect.objectContaining({ msg: "odd", err: expect.objectContaining({ stack: expect.stringContaining("at ") }) }),
  ]);
  expect(logged[0]).not.toHaveProperty("err");
});

test("requests that a client sends without waiting for answers cause no warning", async () => {
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.name);
  process.on("warning", note);
  const app = await createServiceServer({
    prefixes: [""],
    work: new Work(),
    log: pino({ enabled: false }),
  });
  app.get("/", async () => {
    await setImmediate();
    return {};
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const socket = connect((app.server.address() as AddressInfo).port, "127.0.0.1");
  const answer = text(socket);
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20));
  socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  expect((await answer).match(/HTTP\/1\.1 200/g)).toHaveLength(21);
  await app.close();
  process.off("warning", note);
  expect(warnings).toEqual([]);
});

test.each([1, 5 * 65_536])(
  "pieces of a file are freed once they are taken, and not before (%i bytes may wait)",
  async (highWaterMark) => {
    const folder = await mkdtemp(join(tmpdir(), "rollcall-families-"));
    const file = join(folder, "list.json");
    await writeFile(file, Array.from({ length: 100_000 }, (_, index) => `line ${index}`).join("\n"));
    const pieces: Buffer[] = [];
    const taken: Buffer[] = [];
    const destination = new Writable({
      highWaterMark,
      write: (piece: Buffer, _, done) => {
        pieces.push(piece);
        setTimeout(() => {
          taken.push(Buffer.from(piece));
          done();
        }, 0);
      },
    });
    await pipeline(freeSent(createReadStream(file, { highWaterMark: 65_536 }), destination), destination);
    expect(Buffer.concat(taken).equals(await readFile(file))).toBe(true);
    // The last are left to the garbage collection.
    const left = pieces.filter((piece) => piece.length > 0);
    expect(pieces.length).toBeGreaterThan(15);
    expect(left.length).toBeLessThan(8);
    await rm(folder, { recursive: true });
  },
);
