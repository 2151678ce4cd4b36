import { mkdtemp, readFile, readdir, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SyncUpload } from "#service/directory/receive.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-receive-"));
});
afterAll(() => rm(folder, { recursive: true }));

type Encoding = "urlencoded" | "multipart";

function encode(encoding: Encoding, fields: readonly (readonly [string, string])[]): [Buffer, string] {
  if (encoding === "urlencoded") {
    const form = new URLSearchParams(fields.map(([name, value]) => [name, value]));
    return [Buffer.from(form.toString()), "application/x-www-form-urlencoded"];
  }
  const parts = fields.map(
    ([name, value]) => `--BOUNDARY\r\nContent-Disposition: form-data; name="${name}"; filename="f"\r\n\r\n${value}\r\n`,
  );
  return [Buffer.from(`${parts.join("")}--BOUNDARY--\r\n`), "multipart/form-data; boundary=BOUNDARY"];
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends]
    .map((start, index) => Buffer.from(bytes.subarray(start, ends[index] ?? bytes.length)))
    .filter(({ length }) => length > 0);
}

const never = new AbortController().signal;
const receive = (body: Readable, type: string, signal = never): SyncUpload =>
  new SyncUpload(body, type, new URLSearchParams("?remoteDeleted=false"), { folder, signal });

/** The lists that have come whole. */
async function listsOf(upload: SyncUpload): Promise<string[]> {
  const lists: string[] = [];
  for await (const { file } of upload.pieces()) lists.push(await readFile(file, "utf8"));
  return lists;
}

const text = fc.array(
  fc.constantFrom("[", "é", "\u{1F600}", "%", "+", " ", "&", "=", "\r\n", "--BOUND", "\r\n--", "x".repeat(70_000)),
  {
    maxLength: 30,
  },
);
const places = fc.array(fc.nat({ max: 1_000_000 }), { maxLength: 8 });

test("B.2, B.3 the list and the parameters are what was sent, however they are encoded and wherever they are cut", async () => {
  const encoding = fc.constantFrom<Encoding>("urlencoded", "multipart");
  await fc.assert(
    fc.asyncProperty(
      encoding,
      text,
      fc.option(text),
      places,
      fc.boolean(),
      async (encoding, parts, first, cuts, apply) => {
        const list = JSON.stringify(parts);
        const before = first === null ? [] : [["principals", first.join("")] as const];
        const fields = [
          ...before,
          ["applyChanges", String(apply)],
          ["PRINCIPALS", list],
          ["password", "a+b %41"],
        ] as const;
        const [bytes, type] = encode(encoding, fields);
        const upload = receive(Readable.from(cut(bytes, cuts)), type);
        expect(await upload.received).toMatchObject({ apply, removeDeleted: false, defaultPassword: "a+b %41" });
        expect(await listsOf(upload)).toEqual([list]);
        await upload.discard();
        expect(await readdir(folder)).toEqual([]);
      },
    ),
    { numRuns: 150 },
  );
});

test("a body that is broken off anywhere leaves no file, and none is open", async () => {
  const list = `[${"x".repeat(300_000)}]`;
  for (const encoding of ["urlencoded", "multipart"] as const) {
    const [bytes, type] = encode(encoding, [
      ["principals", list],
      ["applyChanges", "true"],
    ]);
    const ends = Array.from({ length: 40 }, (_, index) => Math.floor((index * bytes.length) / 40));
    await Promise.all(
      ends.map(async (end) => {
        const controller = new AbortController();
        const body = new Readable({ read: () => undefined });
        for (const piece of cut(bytes.subarray(0, end), [100, 70_000, 200_000])) body.push(piece);
        setTimeout(() => controller.abort(new Error("the client went away")), end % 20);
        const upload = receive(body, type, controller.signal);
        await expect(upload.received).rejects.toThrow("the client went away");
        await upload.discard();
      }),
    );
    expect(await readdir(folder)).toEqual([]);
    expect(await openFiles()).toEqual([]);
  }
});

test("a multipart body without its end is refused wherever it ends, and leaves no file, and none is open", async () => {
  for (const parts of [2, 3, 4]) {
    // The others wait while the first one is written.
    const lists = Array.from({ length: parts }, (_, index) => `[${"x".repeat(index === 0 ? 100_000 : 3)}]`);
    const [bytes, type] = encode(
      "multipart",
      lists.map((list) => ["principals", list]),
    );
    const end = bytes.lastIndexOf("--");
    for (let length = 100_000; length < end; length++) {
      // Whole, in two pieces, and byte by byte at its end.
      const cuts = [[], [50_000], Array.from({ length: length - 99_990 }, (_, place) => 99_990 + place)][length % 3];
      const body = Readable.from(cut(bytes.subarray(0, length), cuts ?? []));
      const upload = receive(body, type);
      await expect(upload.received, `${parts} parts, ${length} bytes`).rejects.toThrow("Unexpected end");
      await upload.discard();
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(await readdir(folder)).toEqual([]);
    expect(await openFiles()).toEqual([]);
  }
});

/** What this process has open below the folder; nothing on systems that cannot tell. */
async function openFiles(): Promise<string[]> {
  const open = await readdir("/proc/self/fd").catch(() => []);
  const names = await Promise.all(open.map((file) => readlink(`/proc/self/fd/${file}`).catch(() => "")));
  return names.filter((name) => name.startsWith(folder));
}
