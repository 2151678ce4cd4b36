import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { Busboy } from "@fastify/busboy";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { listBody } from "#client/form.ts";
import type { Form } from "#client/form.ts";
import { formBody } from "#http/client.ts";
import type { RequestBody } from "#http/client.ts";
import { bench } from "../target/harness.ts";

const never = new AbortController().signal;
const secret = fc.string({ unit: "grapheme" });
const list = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 2000 }),
  fc.json({ stringUnit: "grapheme" }),
  fc.constantFrom("", '["%","+","&=","\\n","\uFEFF","😀","é\u0301"]', "\uFEFF[]", "\r\n--rollcall-\r\n", "a\0b"),
);

async function bytesOf(body: RequestBody): Promise<Buffer> {
  // A block is used again once the second one after it is asked for.
  const bytes = Buffer.concat(await Array.fromAsync(body.chunks(), (block) => Buffer.from(block)));
  expect(body.length).toBe(bytes.length);
  return bytes;
}

function formOf(principals: string, defaultPassword: string): Form {
  return {
    fields: { applyChanges: "true", defaultPassword, remoteDeleted: "true" },
    file: { field: "principals", path: principals },
  };
}

/** The parts of a multipart form in their order: a field's name and value. */
async function partsOf(contentType: string, bytes: Buffer): Promise<[string, string, string | undefined][]> {
  const parts: Promise<[string, string, string | undefined]>[] = [];
  const parser = new Busboy({
    headers: { "content-type": contentType },
    isPartAFile: (_field, _type, name) => name !== undefined,
  });
  parser.on("field", (name, value) => parts.push(Promise.resolve([name, value, undefined])));
  parser.on("file", (name, stream, filename) => {
    parts.push(buffer(stream).then((content) => [name, content.toString("latin1"), filename]));
  });
  await pipeline(Readable.from([bytes]), parser);
  return Promise.all(parts);
}

test("an urlencoded form arrives as it was, whatever its list and password hold", async () => {
  const { principals } = await bench();
  await fc.assert(
    fc.asyncProperty(list, secret, async (text, password) => {
      const body = await listBody("urlencoded", formOf(await principals(text), password), never);
      expect(body.contentType).toBe("application/x-www-form-urlencoded");
      expect([...new URLSearchParams((await bytesOf(body)).toString("latin1"))]).toEqual([
        ["applyChanges", "true"],
        ["defaultPassword", password],
        ["remoteDeleted", "true"],
        ["principals", text],
      ]);
    }),
  );
});

test("a multipart form arrives as it was, whatever its list and password hold", async () => {
  const { principals } = await bench();
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 3000 }), secret, async (content, password) => {
      const body = await listBody("multipart", formOf(await principals(content), password), never);
      expect(await partsOf(body.contentType ?? "", await bytesOf(body))).toEqual([
        ["applyChanges", "true", undefined],
        ["defaultPassword", password, undefined],
        ["remoteDeleted", "true", undefined],
        ["principals", Buffer.from(content).toString("latin1"), "principals.json"],
      ]);
    }),
  );
});

test.each(["urlencoded", "multipart"] as const)(
  "a %s form larger than a block is cut nowhere, again and again",
  async (kind) => {
    const { principals } = await bench();
    const text = `[${'"jürgen 😀 %+", '.repeat(20_000)}]`;
    const body = await listBody(kind, formOf(await principals(text), ""), never);
    for (const bytes of [await bytesOf(body), await bytesOf(body)]) {
      const received =
        kind === "urlencoded"
          ? new URLSearchParams(bytes.toString("latin1")).get("principals")
          : Buffer.from((await partsOf(body.contentType ?? "", bytes)).at(-1)?.[1] ?? "", "latin1").toString();
      expect(received === text).toBe(true);
    }
  },
);

test("a small form arrives as it was", async () => {
  await fc.assert(
    fc.asyncProperty(secret, secret, async (username, password) => {
      const bytes = await bytesOf(formBody({ username, password }));
      expect([...new URLSearchParams(bytes.toString())]).toEqual([
        ["username", username],
        ["password", password],
      ]);
    }),
  );
});
