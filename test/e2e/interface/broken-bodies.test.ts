import { readdir, readlink } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { call } from "../../support/rollcall/service.ts";
import { startLoadService } from "./loading.ts";
import type { LoadService } from "./loading.ts";
import { sync, user } from "./principals.ts";

let loads: LoadService;
let cycle: string;
beforeAll(async () => {
  loads = await startLoadService();
  cycle = await loads.start();
});
afterAll(() => loads.end());

const part = (name: string, value: string): string =>
  `--b\r\nContent-Disposition: form-data; name="${name}"; filename="f"\r\n\r\n${value}\r\n`;
const bodyOf = (lists: readonly string[]): Buffer =>
  Buffer.from(`${lists.map((list) => part("principals", list)).join("")}${part("file", "1,one")}--b--\r\n`);
/** Parts that are there at once, and one that has to be written first. */
const bodies = [bodyOf(["[]", "[1]"]), bodyOf([`[${" ".repeat(40_000)}]`, "[1]"]), bodyOf(["", "", "", ""])] as const;

/** What a client does with a body: sends all of it, goes before it has an answer, or stops in the middle. */
type Manner = "sends it" | "leaves" | "stops" | "half-closes";

/** Sends the body. @returns the status, where the client waited for an answer */
async function send(path: string, body: Buffer, manner: Manner): Promise<number | undefined> {
  const { hostname, port, host } = new URL(loads.url);
  const length = body.length + (manner === "stops" || manner === "half-closes" ? 100 : 0);
  const socket = connect(Number(port), hostname).on("error", () => undefined);
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${host}`,
    "Connection: close",
    `Cookie: JSESSIONID=${loads.session}`,
    "Content-Type: multipart/form-data; boundary=b",
    `Content-Length: ${length}`,
  ];
  const answer = text(socket).catch(() => "");
  await new Promise<void>((resolve) => {
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    socket.write(body, () => {
      resolve();
    });
  });
  if (manner === "half-closes") socket.end();
  if (manner === "leaves" || manner === "stops") socket.destroy();
  const status = /^HTTP\/1\.1 (\d+)/.exec(await answer)?.[1];
  return status === undefined ? undefined : Number(status);
}

/** The files and connections that the service has open, and what is in its folders for what arrives. */
async function held(): Promise<unknown> {
  const fds = `/proc/${loads.service.running.process.pid}/fd`;
  const links = await Promise.all((await readdir(fds)).map((fd) => readlink(join(fds, fd)).catch(() => "")));
  const folder = join(loads.service.data, "service");
  return {
    files: links.filter((link) => link.startsWith(loads.service.data)).sort(),
    sockets: links.filter((link) => link.startsWith("socket:")).length,
    uploads: await readdir(join(folder, "uploads")),
    answers: await readdir(join(folder, "answers")),
    parts: (await readdir(join(folder, "loads", cycle, "chunks"))).filter((file) => file.endsWith(".part")),
  };
}

test.skipIf(process.platform !== "linux")(
  "A.6, B.2 whatever ends a body, an answer is sent, and no file, folder or connection of it stays",
  async () => {
    const upload = `/ts_dataservice/v1/public/loads/${cycle}`;
    const paths = ["/tspublic/v1/user/sync", upload];
    // The first requests open what stays open.
    for (const path of paths) for (const body of bodies) await send(path, body, "sends it");
    await expect.poll(async () => JSON.stringify(await held())).toMatch(/"uploads":\[\]/);
    const before = await held();
    const ends = fc.oneof({ weight: 1, arbitrary: fc.nat() }, { weight: 3, arbitrary: fc.nat({ max: 250 }) });
    const changes = fc.array(fc.tuple(fc.nat({ max: 400 }), fc.nat({ max: 255 })), { maxLength: 3 });
    const manners = fc.constantFrom<Manner>("sends it", "sends it", "leaves", "stops", "half-closes");
    const body = fc.constantFrom(...bodies);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...paths),
        body,
        ends,
        changes,
        manners,
        async (path, whole, fromEnd, changed, manner) => {
          const bytes = Buffer.from(whole);
          for (const [at, byte] of changed) bytes[bytes.length - 1 - (at % bytes.length)] = byte;
          const sent = bytes.subarray(0, bytes.length - (fromEnd % bytes.length));
          const status = await send(path, sent, manner);
          if (manner === "sends it") expect(status).toBeOneOf([200, 202, 400, 415]);
        },
      ),
      { numRuns: 400 },
    );
    await expect.poll(held).toEqual(before);
    expect((await call(`${loads.url}/readyz`)).status).toBe(200);
    await sync(loads.url, loads.session, [user("ada")]);
    expect((await loads.upload(cycle, "1,one\n")).status).toBe(202);
  },
);
