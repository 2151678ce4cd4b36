import type { Load } from "#client/loads.ts";

/** The options about the format of what is loaded; the names are those of the interface (specification 2.2). */
export interface FormatOptions {
  readonly type?: string;
  readonly field_separator?: string;
  readonly trailing_field_separator?: true;
  readonly enclosing_character?: string;
  readonly escape_character?: string;
  readonly null_value?: string;
  readonly has_header_row?: boolean;
  readonly flexible?: true;
  readonly converted_to_epoch?: boolean;
  readonly date_time_format?: string;
  readonly date_format?: string;
  readonly time_format?: string;
  readonly skip_second_fraction?: true;
  readonly second_fraction_start?: string;
  readonly use_bit_values?: true;
  readonly true_format?: string;
  readonly false_format?: string;
  readonly empty_target?: true;
  readonly max_ignored_rows?: number;
  readonly max_reported_parsing_errors?: number;
}

/** The format and the options that were given, as the interface has them. */
export function loadFormatOf(flags: FormatOptions): Pick<Load, "format" | "options" | "maxReportedErrors"> {
  const { max_reported_parsing_errors: maxReportedErrors } = flags;
  return {
    format: {
      ...given(flags, [
        "type",
        "field_separator",
        "trailing_field_separator",
        "enclosing_character",
        "escape_character",
        "null_value",
        "has_header_row",
        "flexible",
      ]),
      date_time: given(flags, [
        "converted_to_epoch",
        "date_time_format",
        "date_format",
        "time_format",
        "skip_second_fraction",
        "second_fraction_start",
      ]),
      boolean: given(flags, ["use_bit_values", "true_format", "false_format"]),
    },
    options: given(flags, ["empty_target", "max_ignored_rows"]),
    maxReportedErrors,
  };
}

function given<Key extends keyof FormatOptions>(flags: FormatOptions, keys: readonly Key[]): Pick<FormatOptions, Key> {
  return Object.fromEntries(keys.filter((key) => flags[key] !== undefined).map((key) => [key, flags[key]])) as Pick<
    FormatOptions,
    Key
  >;
}
