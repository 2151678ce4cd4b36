import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readMultipart } from "#http/multipart.ts";
import { UrlencodedParser, readForm } from "#service/server/form.ts";
import { cases } from "../../../support/random.ts";

/** Reads a body that arrives in the given pieces, as [name, value] pairs. */
function read(pieces: readonly Buffer[]): [string, string][] {
  const fields: [string, Buffer[]][] = [];
  const parser = new UrlencodedParser((name) => {
    const values: Buffer[] = [];
    fields.push([name, values]);
    return { write: (bytes) => values.push(Buffer.from(bytes)) };
  });
  for (const piece of pieces) parser.write(Buffer.from(piece));
  parser.end();
  return fields.map(([name, values]) => [
    name,
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.concat(values)),
  ]);
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => bytes.subarray(start, ends[index] ?? bytes.length));
}

const encoded = fc
  .array(fc.tuple(fc.string({ unit: "binary" }), fc.string({ unit: "binary" })))
  .map((pairs) => new URLSearchParams(pairs).toString());
/** What may be wrong or odd in a form: bad and half escapes, bytes that are not UTF-8, empty names, separators anywhere. */
const odd = fc
  .array(fc.constantFrom("%", "%2", "%zz", "%41", "%e2%82%ac", "%ff", "+", "&", "=", "a", "G", "%0g", "%%", "%25"))
  .map((parts) => parts.join(""));

test("B.2 a form is read as URLSearchParams reads it, wherever it is cut", () => {
  fc.assert(
    fc.property(fc.oneof(encoded, odd), fc.array(fc.nat(), { maxLength: 5 }), (body, places) => {
      expect(read(cut(Buffer.from(body), places))).toEqual([...new URLSearchParams(body)]);
    }),
    { numRuns: cases(1000) },
  );
});

test("B.2 a form may be cut at every byte", () => {
  const body = "a=%E2%82%AC+%zz%&&=%4&principals=%5B%7B%22%%41%22%7D%5D&b&c=d=e%2";
  const bytes = Buffer.from(body);
  const expected = [...new URLSearchParams(body)];
  expect(read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(expected);
  for (let place = 0; place <= bytes.length; place++) expect(read(cut(bytes, [place]))).toEqual(expected);
});

test("an overlong field name is cut where a piece ends, and matches no known field", () => {
  const pieces = Array.from({ length: 1000 }, () => Buffer.from("x".repeat(100)));
  const [[name] = [""]] = read([...pieces, Buffer.from("=1")]);
  expect(name).toMatch(/^x{257,400}$/);
});

test("unescaped bytes stand for themselves", () => {
  expect(read([Buffer.from("a=é€&é=1")])).toEqual([
    ["a", "é€"],
    ["é", "1"],
  ]);
});

/** Reads a form that arrives in the given pieces, and changes what it gets, as a reader of a list does. */
async function readBody(pieces: readonly Buffer[]): Promise<[string, string][]> {
  const fields: [string, string][] = [];
  const body = Readable.from(pieces.filter(({ length }) => length > 0).map((piece) => Buffer.from(piece)));
  await readForm(body, "multipart/form-data; boundary=x", {
    open: (name) => {
      const field: [string, string] = [name, ""];
      fields.push(field);
      return {
        write: (bytes) => {
          field[1] += bytes.toString("latin1");
        },
      };
    },
    room: () => Promise.resolve(),
  });
  return fields;
}

test("B.2 a list with line ends is read alike wherever the body is cut", async () => {
  const list = '[\r\n{"name":"a",\r\n"displayName":"x"}\r\n,\r\n--y\r\n--]';
  const part = (name: string, value: string): string =>
    `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const body = Buffer.from(`${part("principals", list)}${part("applyChanges", "false")}--x--\r\n`);
  const expected = [
    ["principals", list],
    ["applyChanges", "false"],
  ];
  for (let first = 1; first < body.length; first++) {
    for (let size = 1; size <= 4; size++) {
      const second = first + size;
      const pieces = [body.subarray(0, first), body.subarray(first, second), body.subarray(second)];
      expect(await readBody(pieces), `cut at ${first} and ${second}`).toEqual(expected);
    }
  }
  expect(await readBody([...body].map((byte) => Buffer.from([byte])))).toEqual(expected);
});

test("pieces of a list are freed once they are read, in either form", async () => {
  const list = Array.from({ length: 200_000 }, (_, index) => `line ${index}`).join("\n");
  const head = (before: string, after: string): string => before + list + after;
  for (const [type, body] of [
    ["application/x-www-form-urlencoded", head("principals=", "&applyChanges=false")],
    [
      "multipart/form-data; boundary=x",
      head('--x\r\nContent-Disposition: form-data; name="principals"\r\n\r\n', "\r\n--x--\r\n"),
    ],
  ] as const) {
    // Each with memory of its own, as Node gives them.
    const pieces = (body.match(/[^]{1,65536}/g) ?? []).map((text) => {
      const piece = Buffer.allocUnsafeSlow(text.length);
      piece.write(text);
      return piece;
    });
    let read = "";
    await readForm(Readable.from(pieces), type, {
      open: (name) => (name === "principals" ? { write: (bytes) => (read += bytes.toString()) } : undefined),
      room: () => setImmediate(),
    });
    expect(read === list, type).toBe(true);
    // One may hold the end of another field.
    expect(pieces.filter((piece) => piece.length > 0).length, type).toBeLessThan(3);
    expect(pieces.length).toBeGreaterThan(30);
  }
});

test("B.2 a body that ends in a part which has to wait for the one before it is refused once that one is over, and ends nothing else", async () => {
  const part = (name: string): string => `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n[]`;
  const body = Buffer.from(`${part("principals")}\r\n${part("applyChanges")}`);
  const pieces = Readable.from(Array.from(body, (byte) => Buffer.from([byte])));
  const room = Promise.withResolvers<void>();
  const opened: string[] = [];
  let isOver = false;
  const reading = readForm(pieces, "multipart/form-data; boundary=x", {
    open: (name) => {
      opened.push(name);
      return { write: () => undefined };
    },
    room: () => room.promise,
  }).finally(() => {
    isOver = true;
  });
  reading.catch(() => undefined);
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  expect([opened, isOver]).toEqual([["principals"], false]);
  room.resolve();
  await expect(reading).rejects.toThrow("the body is not valid multipart/form-data: Unexpected end");
  // What nobody hears is an error of the whole process by now.
  await setImmediate();
  expect(opened).toEqual(["principals"]);
});

/** What a body may be made of: whole parts, and pieces of them in any order. */
const pieceOfBody = fc.oneof(
  fc.constantFrom(
    "--b",
    "\r\n--b",
    "\r\n--b--",
    "\r\n",
    "\r\n\r\n",
    "-",
    "--",
    "b",
    "\r",
    "\n",
    "x",
    "y".repeat(70_000),
  ),
  fc.constantFrom(
    "Content-Disposition: x\r\n\r\n",
    'Content-Disposition: form-data; name="principals"\r\n\r\n',
    '\r\n--b\r\nContent-Disposition: form-data; name="principals"\r\n\r\n[1]',
    '\r\n--b\r\nContent-Disposition: form-data; name="list"; filename="f"\r\n\r\n',
    "\r\n--b\r\n\r\n",
  ),
);

test("A.6, B.2 nothing of a multipart body outlives it, whatever it is made of, wherever it is cut, and whoever fails", async () => {
  const pieces = fc.array(pieceOfBody, { maxLength: 24 });
  const taking = fc.constantFrom("fast", "slow", "fails", "fails later", "skips");
  await fc.assert(
    fc.asyncProperty(pieces, fc.array(fc.nat(), { maxLength: 6 }), taking, async (parts, places, how) => {
      const body = Buffer.from(`--b${parts.join("")}`);
      let running = 0;
      let isOver = false;
      let late = 0;
      const reading = readMultipart(Readable.from(cut(body, places)), "multipart/form-data; boundary=b", {
        malformed: (cause) => new Error("malformed", { cause }),
        take: async ({ content }) => {
          if (isOver) late++;
          running++;
          try {
            if (how === "fails") throw new Error("refused");
            if (how === "skips") content.resume();
            else
              for await (const _ of content) {
                if (how === "slow") await setImmediate();
                if (how === "fails later") throw new Error("refused");
              }
          } finally {
            running--;
          }
        },
      });
      // A hang ends as the test's own time limit.
      await reading.catch((error: unknown) => {
        expect(String(error)).toMatch(/^Error: (?:malformed|refused)$/);
      });
      isOver = true;
      expect(running).toBe(0);
      for (let turn = 0; turn < 3; turn++) await setImmediate();
      expect(late).toBe(0);
    }),
    { numRuns: cases(1000) },
  );
});
