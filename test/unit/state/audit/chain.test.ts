import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { beginning, scan, sealed } from "#state/audit/chain.ts";
import type { Sealed } from "#state/audit/chain.ts";
import type { AuditEntry } from "#state/audit/entry.ts";

/** A chain of so many entries, as lines without their newlines. */
function chain(texts: readonly string[]): string[] {
  let head = beginning;
  return texts.map((text, index) => {
    const by = { name: text, from: "command line" };
    const entry: AuditEntry = { event: "rejected", by, sync: "staff", run: `run-${index}`, reason: text };
    const next = sealed(entry, head, new Date(Date.UTC(2026, 10, 21, 10, 0, index)));
    ({ head } = next);
    return next.line;
  });
}

/** `text` in chunks of `size` bytes. */
async function* chunks(text: string | Buffer, size = 1000): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text as string);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const file = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");
const anyText = fc.string({ unit: "binary", maxLength: 40 });
const anyChain = fc.array(anyText, { minLength: 2, maxLength: 12 }).map(chain);

test("an untouched chain verifies, however it is cut into chunks, and yields every entry unchanged", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyText, { maxLength: 12 }), fc.integer({ min: 1, max: 700 }), async (texts, size) => {
      const lines = chain(texts);
      const told: Sealed[] = [];
      const result = await scan(chunks(file(lines), size), beginning, (entry) => {
        told.push(entry);
      });
      expect(result).toEqual({
        head: told.length === 0 ? beginning : { sequence: lines.length, hash: told.at(-1)?.hash },
        lines: lines.length,
        bytes: Buffer.byteLength(file(lines)),
      });
      expect(told.map(({ facts }) => facts["reason"])).toEqual(texts.map((text) => text.toWellFormed()));
    }),
  );
});

describe("any single manipulation of the file is found, at its line", () => {
  test("a byte that is another one", async () => {
    await fc.assert(
      fc.asyncProperty(anyChain, fc.nat(), fc.integer({ min: 1, max: 255 }), async (lines, at, by) => {
        const bytes = Buffer.from(file(lines));
        const index = at % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ by;
        const { broken, lines: good } = await scan(chunks(bytes), beginning);
        const line =
          Buffer.from(file(lines))
            .subarray(0, index)
            .filter((byte) => byte === 10).length + 1;
        expect(broken?.line).toBe(line);
        expect(good).toBe(line - 1);
        // What is no JSON, or has no end, looks as if it was not written to its end where no line follows: that is so of the
        // last line, and of the one before it when they have become one.
        const isLast = !bytes.subarray(index + 1, -1).includes(10);
        expect(isLast ? ["changed", "torn"] : ["changed"]).toContain(broken?.what);
      }),
    );
  });

  test("a line that is gone, unless it is the last one", async () => {
    await fc.assert(
      fc.asyncProperty(anyChain, fc.nat(), async (lines, at) => {
        const index = at % (lines.length - 1);
        const { broken } = await scan(chunks(file(lines.toSpliced(index, 1))), beginning);
        expect(broken).toMatchObject({ what: "removed", line: index + 1 });
      }),
    );
  });

  test("two lines that have changed places", async () => {
    await fc.assert(
      fc.asyncProperty(anyChain, fc.nat(), fc.nat(), async (lines, a, b) => {
        const [first, second] = [a % lines.length, b % lines.length].sort((x, y) => x - y) as [number, number];
        fc.pre(first !== second);
        const swapped = lines.with(first, lines[second] ?? "").with(second, lines[first] ?? "");
        const { broken } = await scan(chunks(file(swapped)), beginning);
        expect(broken).toMatchObject({ what: "reordered", line: first + 1 });
      }),
    );
  });

  test("a line that is there twice, or is of another chain, or is none", async () => {
    await fc.assert(
      fc.asyncProperty(anyChain, anyChain, fc.nat(), fc.nat(), async (lines, others, which, where) => {
        // A line of a chain that begins alike could be the next one here, and so could the first line of any chain.
        fc.pre(others[0] !== lines[0]);
        const extras = [...lines, ...others.slice(1), "", "{}", "null", '{"sequence":1}'];
        const extra = extras[which % extras.length] ?? "";
        const at = where % lines.length;
        fc.pre(extra !== lines[at]);
        const { broken } = await scan(chunks(file(lines.toSpliced(at, 0, extra))), beginning);
        expect(broken?.line).toBe(at + 1);
      }),
    );
  });

  test("a line that somebody made to fit: the line after it is the one that is too much", async () => {
    const lines = chain(["a", "b", "c"]);
    const heads: Sealed[] = [];
    await scan(chunks(file(lines)), beginning, (entry) => {
      heads.push(entry);
    });
    const forged = sealed(
      { event: "stopped", by: { name: "x", from: "y" }, process: 1, reason: "" },
      heads[0]!,
      new Date(),
    );
    const inserted = await scan(chunks(file(lines.toSpliced(1, 0, forged.line))), beginning);
    expect(inserted.broken).toMatchObject({ what: "inserted", line: 3 });
    const replaced = await scan(chunks(file(lines.with(1, forged.line))), beginning);
    expect(replaced.broken).toMatchObject({ what: "changed", line: 3 });
  });

  test("a last line that is not written to its end is torn, wherever it ends", async () => {
    await fc.assert(
      fc.asyncProperty(anyChain, fc.nat(), async (lines, at) => {
        const whole = Buffer.from(file(lines));
        const last = Buffer.byteLength(file(lines.slice(0, -1)));
        const cut = last + 1 + (at % (whole.length - last - 1));
        const result = await scan(chunks(whole.subarray(0, cut)), beginning);
        expect(result).toMatchObject({ broken: { what: "torn", line: lines.length }, bytes: last });
      }),
    );
  });
});

test("a start in the middle passes over what comes before it, whatever that is", async () => {
  const lines = chain(["a", "b", "c", "d"]);
  const damaged = file(lines.with(0, "nothing"));
  expect(await scan(chunks(damaged), 3)).toMatchObject({ head: { sequence: 4 }, lines: 4 });
  expect(await scan(chunks(damaged), 1)).toMatchObject({ broken: { what: "removed", line: 2 } });
  expect((await scan(chunks(damaged), 5)).head).toBeUndefined();
});

test("a line without an end does not fill the memory", async () => {
  async function* endless(): AsyncGenerator<Buffer> {
    const chunk = Buffer.alloc(1024 * 1024, "x");
    for (let count = 0; count < 200; count++) yield chunk;
  }
  const before = process.memoryUsage().rss;
  expect(await scan(endless(), beginning)).toMatchObject({ broken: { what: "torn", line: 1 } });
  expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
});
