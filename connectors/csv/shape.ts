import { InputError } from "#errors.ts";
import type { Dialect } from "./options.ts";
import { at } from "./place.ts";
import type { Row } from "./rows.ts";

/**
 * The row with as many fields as the header has columns; undefined when it is one to skip.
 * @throws {InputError} when it has more or fewer and no setting allows it
 */
export function shaped(row: Row, width: number, file: string, dialect: Dialect): Row | undefined {
  const { fields } = row;
  if (dialect.skipBlankRows && fields.every((field) => field.trim() === "")) return undefined;
  if (fields.length === width) return row;
  if (fields.length < width && dialect.shortRows) {
    return { ...row, fields: [...fields, ...Array.from({ length: width - fields.length }, () => "")] };
  }
  const isBlankBeyond = fields.length > width && fields.slice(width).every((field) => field.trim() === "");
  if (isBlankBeyond && dialect.trailingDelimiters) return { ...row, fields: fields.slice(0, width) };
  const advice = fields.every((field) => field.trim() === "")
    ? "a row without any value is skipped with skipBlankRows: true"
    : fields.length < width
      ? "missing fields are empty with shortRows: true"
      : isBlankBeyond
        ? "empty fields at the end are dropped with trailingDelimiters: true"
        : "a field that holds a delimiter is quoted";
  throw new InputError(
    `${at({ file, line: row.line })}: has ${fields.length} fields, the header has ${width}; ${advice}`,
  );
}
