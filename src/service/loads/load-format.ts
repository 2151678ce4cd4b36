import { rowSyntax } from "#row-scan.ts";
import type { RowSyntax } from "#row-scan.ts";
import type { TableName } from "#service/engine/engine.ts";
import type { LoadParameters } from "#wire/loads.ts";

/** The most errors that are described, whatever the client asks for: the status holds all of them. */
const mostErrors = 10_000;

export function targetOf({ target }: LoadParameters): TableName {
  return target;
}

export function maxErrorsOf({ advanced_options: { max_reported_parsing_errors: wanted } }: LoadParameters): number {
  return Math.min(wanted, mostErrors);
}

/** How the rows are written. */
export function formatOf({ format }: LoadParameters): LoadFormat {
  const { date_time: dateTime, boolean } = format;
  const isCsv = format.type === "csv";
  return {
    type: format.type,
    fieldSeparator: format.field_separator,
    trailingFieldSeparator: format.trailing_field_separator,
    enclosingCharacter: isCsv ? format.enclosing_character : "",
    escapeCharacter: isCsv ? "" : format.escape_character,
    nullValue: format.null_value,
    hasHeaderRow: format.has_header_row,
    flexible: format.flexible,
    convertedToEpoch: isCsv && dateTime.converted_to_epoch,
    dateTimeFormat: dateTime.date_time_format,
    dateFormat: dateTime.date_format,
    timeFormat: dateTime.time_format,
    skipSecondFraction: dateTime.skip_second_fraction,
    secondFractionStart: dateTime.second_fraction_start,
    useBitValues: isCsv && boolean.use_bit_values,
    trueFormat: boolean.true_format,
    falseFormat: boolean.false_format,
  };
}

export function syntaxOf({ type, fieldSeparator, enclosingCharacter, escapeCharacter }: LoadFormat): RowSyntax {
  return rowSyntax(type, { separator: fieldSeparator, enclosing: enclosingCharacter, escape: escapeCharacter });
}

/** How the rows of a load are written: specification 2.2 with every default filled in. */
export interface LoadFormat {
  readonly type: "csv" | "delimited";
  /** One Unicode character. */
  readonly fieldSeparator: string;
  readonly trailingFieldSeparator: boolean;
  /** One Unicode character or empty: none. Only for csv. */
  readonly enclosingCharacter: string;
  /** One Unicode character or empty: none. Only for delimited. */
  readonly escapeCharacter: string;
  readonly nullValue: string;
  readonly hasHeaderRow: boolean;
  readonly flexible: boolean;
  /** Decided by A.18, for csv: true means that DATE and datetime columns hold epoch seconds. Always false for delimited. */
  readonly convertedToEpoch: boolean;
  /** strptime formats. */
  readonly dateTimeFormat: string;
  readonly dateFormat: string;
  readonly timeFormat: string;
  readonly skipSecondFraction: boolean;
  /** The mark before the fraction of a second; `.` unless the client says otherwise (A.19). */
  readonly secondFractionStart: string;
  readonly useBitValues: boolean;
  readonly trueFormat: string;
  readonly falseFormat: string;
}
