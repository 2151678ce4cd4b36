import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { unpacked } from "#cli/load/inputs.ts";

test("an abandoned stream ends even while it waits for bytes", async () => {
  const packed = new PassThrough();
  const bytes = unpacked("standard input", packed);
  packed.write("1,a\n");
  const reading = bytes[Symbol.asyncIterator]();
  await reading.next();
  const waiting = reading.next();
  bytes.destroy();
  await expect(waiting).rejects.toThrow("Premature close");
  expect(packed.destroyed).toBe(true);
});
