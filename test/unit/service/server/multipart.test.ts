import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { readForm } from "#service/server/form.ts";

/** Reads a form that arrives in the given pieces, and changes what it gets, as a reader of a list does. */
async function read(pieces: readonly Buffer[]): Promise<[string, string][]> {
  const fields: [string, string][] = [];
  const body = Readable.from(pieces.filter(({ length }) => length > 0).map((piece) => Buffer.from(piece)));
  await readForm(body, "multipart/form-data; boundary=x", {
    open: (name) => {
      const field: [string, string] = [name, ""];
      fields.push(field);
      return {
        write: (bytes) => {
          field[1] += bytes.toString("latin1");
          bytes.fill(0);
        },
      };
    },
    room: () => Promise.resolve(),
  });
  return fields;
}

test("B.2 a list with line ends is read alike wherever the body is cut, by whoever changes what they get", async () => {
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
      expect(await read(pieces), `cut at ${first} and ${second}`).toEqual(expected);
    }
  }
  expect(await read([...body].map((byte) => Buffer.from([byte])))).toEqual(expected);
}, 60_000);

test("B.2 a body that ends in a part which has to wait for the one before it is refused, and ends nothing else", async () => {
  const part = (name: string): string => `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n[]`;
  const body = Buffer.from(`${part("principals")}\r\n${part("applyChanges")}`);
  const pieces = Readable.from(Array.from(body, (byte) => Buffer.from([byte])));
  const reading = readForm(pieces, "multipart/form-data; boundary=x", {
    open: () => ({ write: () => undefined }),
    room: () => new Promise(() => undefined),
  });
  await expect(reading).rejects.toThrow("the body is not valid multipart/form-data: Unexpected end");
  // What nobody hears is an error of the whole process by now.
  await setImmediate();
});
