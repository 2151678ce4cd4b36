import fc from "fast-check";
import { expect, test } from "vitest";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { useParsing } from "./parsing.ts";
import { cases } from "../../../support/random.ts";

const { load } = useParsing();

/** What a value of a type looks like in the input, and as DuckDB writes it. */
type Value = { readonly sent: string; readonly stored: string };

const pad = (value: number, length = 2) => String(value).padStart(length, "0");
const date = fc
  .date({ min: new Date("1000-01-01"), max: new Date("9999-12-31"), noInvalidDate: true })
  .map((value) => value.toISOString());
/** Texts with everything that means something to one format or another. */
const text = fc.string({
  unit: fc.oneof(
    fc.constantFrom(",", ";", "|", "→", '"', "'", "\\", "\r", "\n", "\r\n", " ", "\0", "\uFEFF", "N", "(null)", "é"),
    fc.string({ minLength: 1, maxLength: 3, unit: "binary" }),
  ),
  maxLength: 6,
});

const types: Record<string, fc.Arbitrary<Value>> = {
  VARCHAR: text.map((value) => ({ sent: value, stored: value })),
  BIGINT: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => ({ sent: `${n}`, stored: `${n}` })),
  INTEGER: fc.integer().map((n) => ({ sent: n < 0 ? `${n}` : `+${n}`, stored: `${n}` })),
  SMALLINT: fc.integer({ min: -32768, max: 32767 }).map((n) => ({ sent: ` ${n} `, stored: `${n}` })),
  "DECIMAL(9,2)": fc
    .integer({ min: -999_999_999, max: 999_999_999 })
    .map((n) => `${n < 0 ? "-" : ""}${Math.floor(Math.abs(n) / 100)}.${pad(Math.abs(n) % 100)}`)
    .map((value) => ({ sent: `${value}000`, stored: value })),
  BOOLEAN: fc.boolean().map((is) => ({ sent: is ? "T" : "F", stored: String(is) })),
  UUID: fc.uuid().map((value) => ({ sent: value.toUpperCase(), stored: value })),
  DATE: date.map((iso) => ({ sent: iso.slice(0, 10).split("-").reverse().join("."), stored: iso.slice(0, 10) })),
  TIMESTAMP: fc.tuple(date, fc.integer({ min: 0, max: 999_999 })).map(([iso, micros]) => {
    const second = iso.slice(0, 19).replace("T", " ");
    const fraction = micros === 0 ? "" : `.${pad(micros, 6)}`;
    return { sent: `${second}${fraction}${fraction && "789"}`, stored: `${second}${fraction.replace(/0+$/, "")}` };
  }),
  TIME: date.map((iso) => ({ sent: iso.slice(11, 19), stored: iso.slice(11, 19) })),
};

const format: fc.Arbitrary<Partial<LoadFormat>> = fc
  .record({
    type: fc.constantFrom("csv" as const, "delimited" as const),
    fieldSeparator: fc.constantFrom(",", ";", "|", "\t", "→"),
    trailingFieldSeparator: fc.boolean(),
    enclosingCharacter: fc.constantFrom('"', "'", "€"),
    escapeCharacter: fc.constantFrom("\\", "/", "¬"),
    nullValue: fc.constantFrom("(null)", "\\N", "NULL"),
    hasHeaderRow: fc.boolean(),
    flexible: fc.boolean(),
  })
  .map((rest) => ({
    ...rest,
    convertedToEpoch: false,
    dateFormat: "%d.%m.%Y",
    dateTimeFormat: "%Y-%m-%d %H:%M:%S",
  }));

/** One field as the format wants it. `quoted`: where it need not be quoted, quote it all the same. */
function field(value: string | null, quoted: boolean, format: Partial<LoadFormat>): string {
  const { type, fieldSeparator = "", enclosingCharacter = "", escapeCharacter = "", nullValue = "" } = format;
  if (value === null) return nullValue;
  const specials = [fieldSeparator, "\n", "\r", "\uFEFF"];
  if (type === "csv") {
    const must = [...specials, enclosingCharacter].some((special) => value.includes(special));
    if (!must && !quoted) return value;
    return `${enclosingCharacter}${value.replaceAll(enclosingCharacter, enclosingCharacter.repeat(2))}${enclosingCharacter}`;
  }
  const isNull = value === nullValue;
  return Array.from(value)
    .map((character, i) =>
      [...specials, escapeCharacter].includes(character) || (isNull && i === 0)
        ? escapeCharacter + character
        : character,
    )
    .join("");
}

interface Case {
  readonly columns: readonly string[];
  readonly format: Partial<LoadFormat>;
  readonly rows: readonly (readonly (Value | null)[])[];
  /** For each row: whether to quote, and how it ends. */
  readonly shapes: readonly { quoted: boolean; end: string; broken: number }[];
  readonly chunks: number;
}

const tables: fc.Arbitrary<Case> = fc
  .tuple(fc.array(fc.constantFrom(...Object.keys(types)), { minLength: 1, maxLength: 5 }), format)
  .chain(([kinds, format]) => {
    const row = fc.tuple(
      ...kinds.map((kind) => fc.option(types[kind] ?? fc.constant({ sent: "", stored: "" }), { freq: 6 })),
    );
    const shape = fc.record({ quoted: fc.boolean(), end: fc.constantFrom("\n", "\r\n"), broken: fc.nat(12) });
    return fc.record({
      columns: fc.constant(kinds.map((kind, i) => `c${i} ${kind}`)),
      format: fc.constant(format),
      rows: fc.array(row, { maxLength: 12 }),
      shapes: fc.array(shape, { minLength: 12, maxLength: 12 }),
      chunks: fc.integer({ min: 1, max: 3 }),
    });
  });

/** A csv null may be quoted, so nothing else can be written like it. */
function isWritable({ format, rows }: Case): boolean {
  return format.type !== "csv" || !rows.some((row) => row.some((value) => value?.sent === format.nullValue));
}

function written(input: Case): { lines: string[]; isBroken: boolean[]; header: string } {
  const { format, columns, rows, shapes } = input;
  const end = format.trailingFieldSeparator === true ? (format.fieldSeparator ?? "") : "";
  const separator = format.fieldSeparator ?? "";
  const isBroken: boolean[] = [];
  const lines = rows.map((row, i) => {
    const { quoted = false, end: newline = "\n", broken = 0 } = shapes[i] ?? {};
    const fields = row.map((value) => field(value?.sent ?? null, quoted, format));
    const text = fields.join(separator) + end;
    const mark = format.type === "csv" ? (format.enclosingCharacter ?? "") : undefined;
    isBroken.push(true);
    if (broken === 0 && format.flexible === false) return `${text}${separator}one more${end}${newline}`;
    if (broken === 1 && mark !== undefined) return `${mark}a${mark}b${separator}${text}${newline}`;
    // Before an enclosing character it would make the field an unquoted one.
    if (broken === 2 && (mark === undefined || !text.startsWith(mark))) return `\xFF${text}${newline}`;
    isBroken[i] = false;
    return text + newline;
  });
  return { lines, isBroken, header: `${columns.map((_, i) => `h${i}`).join(separator)}\n` };
}

const runs = { numRuns: cases(80) };

test("A.7 A.15 A.17 A.19 A.23 rows written in a format are loaded as they were, and broken ones come back (A.13)", async () => {
  await fc.assert(
    fc.asyncProperty(tables.filter(isWritable), async (input) => {
      const { lines, isBroken, header } = written(input);
      const size = Math.ceil(lines.length / input.chunks);
      const encode = (line: string, i: number) =>
        isBroken[i] === true && line.startsWith("\xFF")
          ? Buffer.concat([Buffer.from([0xff]), Buffer.from(line.slice(1))])
          : Buffer.from(line);
      const bytes = lines.map(encode);
      const chunks = Array.from({ length: input.chunks }, (_, i) =>
        Buffer.concat([
          Buffer.from(input.format.hasHeaderRow === true ? header : ""),
          ...bytes.slice(i * size, (i + 1) * size),
        ]),
      );
      const loaded = await load(input.columns, input.format, ...chunks);
      const kept = input.rows.filter((_, i) => isBroken[i] === false);
      const isText = input.columns.map((column) => column.endsWith("VARCHAR"));
      expect(loaded.rows).toEqual(
        kept.map((row) =>
          row.map((value, i) => (value?.sent === "" && isText[i] !== true ? null : (value?.stored ?? null))),
        ),
      );
      const bad = Buffer.concat(bytes.filter((_, i) => isBroken[i] === true));
      expect(loaded.bad ?? "").toBe(bad.toString("latin1"));
      expect(loaded.rejected).toBe(isBroken.filter(Boolean).length);
      expect(loaded.errors).toHaveLength(loaded.rejected);
    }),
    runs,
  );
});
