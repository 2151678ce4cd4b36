import { isUtf8 } from "node:buffer";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { cases } from "../../../support/random.ts";
import { defaults, useParsing } from "./parsing.ts";

const { load } = useParsing();

/** Bytes as a string of one character each. */
const latin = (text: string): string => Buffer.from(text).toString("latin1");

interface Row {
  /** As it was sent, its end of line included. */
  readonly sent: string;
  /** Null where a field stands for null; undefined: the row is rejected. */
  readonly fields: readonly (string | null)[] | undefined;
}

/** The rows of a chunk as A.7, A.15 to A.17 and A.23 describe them, one byte after the other. */
function rowsOf(chunk: string, format: LoadFormat, width: number): Row[] {
  const separator = latin(format.fieldSeparator);
  const mark = format.type === "csv" ? latin(format.enclosingCharacter) : "";
  const escape = format.type === "csv" ? "" : latin(format.escapeCharacter);
  const nullText = latin(format.nullValue);
  const rows: Row[] = [];
  let at = 0;
  const stands = (text: string): boolean => text !== "" && chunk.startsWith(text, at);
  const atEnd = (): boolean => at >= chunk.length || stands("\n") || stands("\r\n");

  while (at < chunk.length) {
    const from = at;
    const fields: (string | null)[] = [];
    let isRejected = false;
    for (;;) {
      const fieldFrom = at;
      /** What has to be UTF-8 by itself. */
      const parts = [""];
      const add = (text: string): void => {
        parts.push((parts.pop() ?? "") + text);
      };
      if (stands(mark)) {
        at += mark.length;
        while (at < chunk.length && !(stands(mark) && !chunk.startsWith(mark, at + mark.length))) {
          if (stands(mark)) {
            parts.push(mark, "");
            at += 2 * mark.length;
          } else add(chunk[at++] ?? "");
        }
        if (at >= chunk.length) isRejected = true;
        at += mark.length;
        if (!atEnd() && !stands(separator)) isRejected = true;
      }
      while (!atEnd() && !stands(separator)) {
        if (stands(escape)) {
          at += escape.length;
          parts.push(at < chunk.length ? (chunk[at++] ?? "") : escape);
        } else add(chunk[at++] ?? "");
      }
      at = Math.min(at, chunk.length);
      if (parts.some((part) => !isUtf8(Buffer.from(part, "latin1")))) isRejected = true;
      const value = parts.join("");
      const compared = format.type === "csv" ? value : chunk.slice(fieldFrom, at);
      if (stands(separator)) {
        at += separator.length;
        fields.push(compared === nullText ? null : value);
        continue;
      }
      const isTrailing = format.trailingFieldSeparator && fieldFrom === at && fields.length > 0;
      if (format.trailingFieldSeparator && !isTrailing) isRejected = true;
      if (!isTrailing) fields.push(compared === nullText ? null : value);
      break;
    }
    const isEmpty = at === from;
    at += stands("\n") ? 1 : stands("\r\n") ? 2 : 0;
    if (isEmpty && width > 1) continue;
    if (fields.length !== width && !format.flexible) isRejected = true;
    const padded = Array.from({ length: width }, (_, i) => fields[i] ?? null);
    rows.push({ sent: chunk.slice(from, at), fields: isRejected ? undefined : padded });
  }
  return rows;
}

/** The value that a table holds; undefined where it does not convert. */
function valueOf(field: string | null, column: string): string | null | undefined {
  let value = field === null ? null : Buffer.from(field, "latin1").toString();
  if (column.includes("INTEGER") && value !== null) {
    const trimmed = value.replace(/^ +| +$/g, "");
    const number = Number(trimmed);
    if (trimmed !== "" && (!/^[+-]?[0-9]+$/.test(trimmed) || Math.abs(number) > 2 ** 31 - 1)) return undefined;
    value = trimmed === "" ? null : String(number === 0 ? 0 : number);
  }
  return value === null && column.includes("NOT NULL") ? undefined : value;
}

const character = fc.constantFrom(",", ";", "|", "\t", '"', "'", "\\", "/", "é", "ü", "→", "€", "😀", "a");
const format: fc.Arbitrary<Partial<LoadFormat>> = fc
  .record({
    type: fc.constantFrom("csv" as const, "delimited" as const),
    fieldSeparator: fc.oneof({ weight: 2, arbitrary: fc.constantFrom(",", ";") }, { weight: 1, arbitrary: character }),
    trailingFieldSeparator: fc.boolean(),
    enclosingCharacter: fc.oneof(fc.constantFrom('"', "", "é"), character),
    escapeCharacter: fc.oneof(fc.constantFrom("\\", "", "é"), character),
    nullValue: fc.constantFrom("(null)", "\\N", "", "é", '"', ";", "aa"),
    hasHeaderRow: fc.boolean(),
    flexible: fc.boolean(),
  })
  .filter(({ type, fieldSeparator, enclosingCharacter }) => type !== "csv" || fieldSeparator !== enclosingCharacter);

interface Case {
  readonly format: Partial<LoadFormat>;
  readonly columns: readonly string[];
  readonly chunks: readonly Buffer[];
}

const kinds = fc.array(fc.constantFrom("VARCHAR", "VARCHAR", "VARCHAR NOT NULL", "INTEGER"), {
  minLength: 1,
  maxLength: 3,
});

/** What DuckDB's own reader may be trusted with. */
const plainFormat: fc.Arbitrary<Partial<LoadFormat>> = fc.record({
  fieldSeparator: fc.constantFrom(",", ";", "\t"),
  enclosingCharacter: fc.constantFrom('"', "'"),
  nullValue: fc.constantFrom("(null)", "aa"),
  hasHeaderRow: fc.boolean(),
});

/** Rows in the format, some of them odd where it may be, cut into chunks at any bytes. */
const input: fc.Arbitrary<Case> = fc
  .oneof(fc.tuple(format, kinds, fc.constant(true)), fc.tuple(plainFormat, kinds, fc.boolean()))
  .chain(([format, kinds, mayBeOdd]) => {
    const { fieldSeparator = "", enclosingCharacter = "", escapeCharacter = "", nullValue = "" } = format;
    const special = fc.constantFrom(fieldSeparator, enclosingCharacter, escapeCharacter, nullValue, "\n", "\r", "\r\n");
    const wild = fc.oneof(special, fc.constantFrom("a", "1", " ", "é", "ü", "→", '"', "\0", "\uFEFF"));
    const bytes = fc.oneof(
      { weight: 40, arbitrary: wild.map((text) => Buffer.from(text)) },
      { weight: 1, arbitrary: fc.constantFrom([0xc3], [0xa9], [0xe2, 0x86]).map((each) => Buffer.from(each)) },
    );
    const plain = fc.constantFrom("1", "23", " 4 ", "a", "ü", "", nullValue).map((text) => Buffer.from(text));
    const inside = mayBeOdd ? wild : fc.constantFrom("a", " ", enclosingCharacter, fieldSeparator, "é");
    const quoted = fc
      .array(inside, { maxLength: 3 })
      .map((texts) => texts.join("").replaceAll(enclosingCharacter, enclosingCharacter.repeat(2)))
      .map((text) => Buffer.from(enclosingCharacter + text + enclosingCharacter));
    const field = fc.oneof(
      { weight: 12, arbitrary: plain },
      { weight: 4, arbitrary: quoted },
      { weight: mayBeOdd ? 1 : 0, arbitrary: fc.array(bytes, { maxLength: 4 }).map((each) => Buffer.concat(each)) },
    );
    const width = kinds.length;
    const row = fc
      .tuple(
        fc.oneof(
          { weight: 12, arbitrary: fc.array(field, { minLength: width, maxLength: width }) },
          { weight: mayBeOdd ? 1 : 0, arbitrary: fc.array(field, { maxLength: width + 2 }) },
        ),
        fc.nat(15),
        fc.constantFrom("\n", "\n", ...(mayBeOdd ? ["\r\n", "\n\n"] : [])),
      )
      .map(([fields, odd, end]) => {
        const separator = Buffer.from(fieldSeparator);
        const joined = fields.flatMap((each, i) => (i === 0 ? [each] : [separator, each]));
        const last = format.trailingFieldSeparator === true && odd > 0 ? [separator] : [];
        return Buffer.concat([...joined, ...last, Buffer.from(end)]);
      });
    return fc.record({
      format: fc.constant(format),
      columns: fc.constant(kinds.map((kind, i) => `c${i} ${kind}`)),
      chunks: fc
        .tuple(fc.array(row, { maxLength: 12 }), fc.array(fc.nat(300), { maxLength: 3 }))
        .map(([rows, cuts]) => {
          const all = Buffer.concat(rows);
          const places = [0, ...cuts.map((cut) => cut % (all.length + 1)).toSorted((a, b) => a - b), all.length];
          return places.slice(1).map((to, i) => all.subarray(places[i], to));
        }),
    });
  });

const byteOrderMark = latin("\uFEFF");
const header = "one of a kind";

/** What comes of a case. */
function expectedOf({ format, columns, chunks }: Case): { rows: (string | null)[][]; bad: string; rejected: number } {
  const complete = { ...defaults, ...format };
  const all = chunks.flatMap((chunk) => {
    const text = chunk.toString("latin1");
    return rowsOf(text.startsWith(byteOrderMark) ? text.slice(3) : text, complete, columns.length);
  });
  const rows: (string | null)[][] = [];
  let bad = "";
  let rejected = 0;
  for (const { sent, fields } of all) {
    const values = fields?.map((field, i) => valueOf(field, columns[i] ?? "")) ?? [undefined];
    const accepted = values.flatMap((value) => (value === undefined ? [] : [value]));
    if (accepted.length === columns.length && accepted.length === values.length) {
      rows.push(accepted);
    } else {
      rejected++;
      bad += sent.endsWith("\n") ? sent : `${sent}\n`;
    }
  }
  return { rows, bad, rejected };
}

/** With a header before the first chunk, and before others as well: there it is dropped. */
function sentOf({ format, chunks }: Case): Buffer[] {
  if (format.hasHeaderRow !== true) return [...chunks];
  return chunks.map((chunk, i) =>
    i % 2 === 0 && !chunk.toString("latin1").startsWith(byteOrderMark)
      ? Buffer.concat([Buffer.from(`${header}\n`), chunk])
      : chunk,
  );
}

/** The header must be a row by itself, and the first chunk must not begin with a byte order mark before it. */
function isUsable({ format, chunks }: Case): boolean {
  const { fieldSeparator = "", enclosingCharacter = "", escapeCharacter = "" } = format;
  const odd = [fieldSeparator, enclosingCharacter, escapeCharacter].some(
    (text) => text !== "" && header.includes(text),
  );
  return format.hasHeaderRow !== true || (!odd && !(chunks[0]?.toString("latin1").startsWith(byteOrderMark) ?? false));
}

test("A.7 A.13 A.15 A.16 A.17 A.23 in any format, in chunks cut at any byte, both paths read what the rules say", async () => {
  let direct = 0;
  let rejecting = 0;
  await fc.assert(
    fc.asyncProperty(input.filter(isUsable), async (given) => {
      const loaded = await load(given.columns, given.format, ...sentOf(given));
      const { rows, bad, rejected } = expectedOf(given);
      expect(loaded.rows).toEqual(rows);
      expect(loaded.bad ?? "").toBe(bad);
      expect(loaded.rejected).toBe(rejected);
      if (loaded.isDirect) direct++;
      if (rejected > 0) rejecting++;
    }),
    // Of fewer, none may be direct.
    { numRuns: cases(220) },
  );
  expect(rejecting).toBeGreaterThan(8);
  // About one in twenty-five.
  expect(direct).toBeGreaterThan(0);
});

test("A.7 A.13 the same across the blocks in which chunks are read", async () => {
  await fc.assert(
    fc.asyncProperty(input, fc.nat(7), async ({ columns, format, chunks }, shift) => {
      const bytes = Buffer.concat(chunks);
      fc.pre(bytes.length > 0);
      // Blocks are 128 KiB; of a different length each time, so that another byte is at their edge.
      const copies = Math.ceil(300_000 / bytes.length);
      const large = Buffer.concat([Buffer.alloc(shift, "a"), ...Array.from({ length: copies }, () => bytes)]);
      const given = { columns, format: { ...format, hasHeaderRow: false }, chunks: [large] };
      const loaded = await load(columns, given.format, large);
      const { rows, bad, rejected } = expectedOf(given);
      expect(loaded.rejected).toBe(rejected);
      expect(loaded.bad === bad || (loaded.bad === undefined && bad === "")).toBe(true);
      expect(JSON.stringify(loaded.rows) === JSON.stringify(rows)).toBe(true);
    }),
    { numRuns: cases(2) },
  );
});

test("A.7 rows have the same fate in one chunk and in several, wherever these are cut between rows", async () => {
  let several = 0;
  await fc.assert(
    fc.asyncProperty(input, fc.array(fc.nat(12), { maxLength: 4 }), async ({ columns, format, chunks }, places) => {
      const whole = { ...defaults, ...format, hasHeaderRow: false };
      const rows = rowsOf(Buffer.concat(chunks).toString("latin1"), whole, columns.length).map(({ sent }) => sent);
      const ends = [0, ...places.map((place) => place % (rows.length + 1)).toSorted((a, b) => a - b), rows.length];
      const parts = ends.slice(1).map((to, i) => rows.slice(ends[i], to).join(""));
      // At the start of a chunk it is dropped.
      fc.pre(!parts.some((part) => part.startsWith(byteOrderMark)));
      const { isDirect: _one, ...one } = await load(columns, whole, Buffer.from(rows.join(""), "latin1"));
      const { isDirect: _other, ...other } = await load(
        columns,
        whole,
        ...parts.map((part) => Buffer.from(part, "latin1")),
      );
      expect(other).toEqual(one);
      if (parts.length > 1) several++;
    }),
    { numRuns: cases(40) },
  );
  expect(several).toBeGreaterThan(8);
});
