import { z } from "zod";

/** `null` is the same as absent (A.3). */
function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** A section of keys that may be absent as a whole. Unknown keys are ignored. */
function group<Shape extends z.ZodRawShape>(shape: Shape) {
  const schema = z.object(shape);
  return schema.nullish().transform((value) => value ?? schema.parse({}));
}

/** One Unicode character, of which none ends a line. Half a surrogate pair is none. */
const character = z
  .string()
  .refine((value) => Array.from(value).length === 1 && value.isWellFormed() && !/[\r\n]/.test(value));
const characterOrNone = z.literal("").or(character);
const name = z.string().min(1);
const count = z.int().min(0);
const text = optional(z.string());
const flag = optional(z.boolean());

const type = z
  .string()
  .transform((value) => value.toLowerCase())
  .pipe(z.enum(["csv", "delimited"]));

/** The body of StartLoad as it may be written: the nested form, the five keys of the flat one, or both (A.3). */
const startBody = z.object({
  target: group({
    database: optional(name).describe("Required, here or as `target_database`."),
    schema: text.describe("Default `core_default_schema`."),
    table: optional(name).describe("Required, here or as `target_table`. It must exist."),
  }),
  format: group({
    type: optional(type).describe("`csv` (the default) or `delimited`, in any case."),
    field_separator: optional(character).describe("One character; default `,`."),
    trailing_field_separator: flag.describe("Whether rows end with a separator."),
    enclosing_character: optional(characterOrNone).describe(
      'One character or empty for none; default `"`. `csv` only.',
    ),
    escape_character: optional(characterOrNone).describe("One character; default none. `delimited` only."),
    null_value: text.describe("The field that stands for null; default `(null)`."),
    has_header_row: flag.describe("Whether the first row of the first chunk is a header."),
    flexible: flag.describe("Drop extra fields, and read missing ones as null."),
    date_time: group({
      converted_to_epoch: flag.describe(
        "Whether dates and datetimes are seconds since 1970. Default: true, unless a date or datetime format is given.",
      ),
      date_time_format: text.describe("strptime; default `%Y%m%d %H:%M:%S`."),
      date_format: text.describe("strptime; default `%Y%m%d`."),
      time_format: text.describe("strptime; default `%H:%M:%S`."),
      skip_second_fraction: flag.describe("Drop fractions of seconds."),
      second_fraction_start: optional(character).describe("What begins the fraction of a second; default `.`."),
    }),
    boolean: group({
      use_bit_values: flag.describe("Booleans are `0x1` and `0x0`. `csv` only."),
      true_format: text.describe("Default `T`."),
      false_format: text.describe("Default `F`."),
    }),
  }),
  load_options: group({
    empty_target: flag.describe("Replace the table's rows instead of appending to them."),
    max_ignored_rows: optional(count).describe("More rejected rows than this fail the load; default 0."),
  }),
  advanced_options: group({
    max_reported_parsing_errors: optional(count).describe("How many errors the status reports; default 100."),
  }),
  target_database: optional(name).describe("The flat form of `target.database`."),
  target_schema: text.describe("The flat form of `target.schema`."),
  target_table: optional(name).describe("The flat form of `target.table`."),
  field_separator: optional(character).describe("The flat form of `format.field_separator`."),
  empty_target: flag.describe("The flat form of `load_options.empty_target`."),
});

/**
 * The body of StartLoad (specification 2.2, A.3) with every default filled in. What it makes is a valid body again,
 * which means the same.
 */
export const loadParameters = startBody.transform((body, context) => {
  const { target, format, load_options: options } = body;
  const { date_time: dateTime, boolean } = format;
  /** The value of a key that both forms have. */
  function either<Value>(nested: Value | undefined, flat: Value | undefined): Value | undefined {
    if (nested !== undefined && flat !== undefined && nested !== flat) {
      context.addIssue(`both ${String(nested)} and ${String(flat)}`);
    }
    return nested ?? flat;
  }
  const parameters = {
    target: {
      database: either(target.database, body.target_database) ?? "",
      schema: either(target.schema, body.target_schema) || "core_default_schema",
      table: either(target.table, body.target_table) ?? "",
    },
    format: {
      type: format.type ?? "csv",
      field_separator: either(format.field_separator, body.field_separator) ?? ",",
      trailing_field_separator: format.trailing_field_separator ?? false,
      enclosing_character: format.enclosing_character ?? '"',
      escape_character: format.escape_character ?? "",
      null_value: format.null_value ?? "(null)",
      has_header_row: format.has_header_row ?? false,
      flexible: format.flexible ?? false,
      date_time: {
        // A.18: formats that were given say that values are written with them.
        converted_to_epoch:
          dateTime.converted_to_epoch ??
          (dateTime.date_format === undefined && dateTime.date_time_format === undefined),
        date_time_format: dateTime.date_time_format ?? "%Y%m%d %H:%M:%S",
        date_format: dateTime.date_format ?? "%Y%m%d",
        time_format: dateTime.time_format ?? "%H:%M:%S",
        skip_second_fraction: dateTime.skip_second_fraction ?? false,
        second_fraction_start: dateTime.second_fraction_start ?? ".",
      },
      boolean: {
        use_bit_values: boolean.use_bit_values ?? false,
        true_format: boolean.true_format ?? "T",
        false_format: boolean.false_format ?? "F",
      },
    },
    load_options: {
      empty_target: either(options.empty_target, body.empty_target) ?? false,
      max_ignored_rows: options.max_ignored_rows ?? 0,
    },
    advanced_options: { max_reported_parsing_errors: body.advanced_options.max_reported_parsing_errors ?? 100 },
  };
  const { type, field_separator: separator, enclosing_character: enclosing } = parameters.format;
  if (parameters.target.database === "" || parameters.target.table === "") {
    context.addIssue("no database or no table");
  }
  if (type === "csv" && separator === enclosing) {
    context.addIssue("the separator is the enclosing character");
  }
  return parameters;
});
export type LoadParameters = z.output<typeof loadParameters>;
/** The same as a client may write it. */
export type LoadRequest = z.input<typeof loadParameters>;

/** Where a cycle is (A.11). A failed or cancelled one is `DONE` as well. */
export const stages = ["INGESTING", "COMMITTING", "DONE"] as const;
export type InternalStage = (typeof stages)[number];

/** The value of a status (A.11). */
export const statusCodes = ["OK", "LOAD_FAILED", "CANCELLED"] as const;
export type StatusCode = (typeof statusCodes)[number];

const decimal = z.string().regex(/^\d+$/);

/** The status of a load (specification 2.4, A.10). Times are in epoch microseconds. */
export const loadStatus = z.object({
  cycle_id: z.string(),
  internal_stage: z.enum(stages).describe("`DONE` also after a failure or a cancellation."),
  status: z.object({ code: z.enum(statusCodes), message: z.string().optional().describe("What went wrong.") }),
  rows_written: decimal.describe("Accepted input rows; 0 of a failed load."),
  ignored_row_count: decimal.describe("Rejected rows of the whole input."),
  bytes_written: decimal.describe("Bytes received."),
  buffered_bytes_size: decimal,
  ingested_network_bw: decimal.describe("Bytes a second."),
  start_time: decimal.describe("Epoch microseconds."),
  end_time: decimal.optional().describe("Epoch microseconds."),
  parsing_errors: z
    .array(z.string())
    .optional()
    .describe("The first rejected rows: row number, column, what is wrong."),
});
export type LoadStatus = z.infer<typeof loadStatus>;

/** The result of StartLoad (specification 2.3, A.5). */
export const loadStarted = z.object({
  node_address: z.object({ host: z.string(), port: z.int() }),
  cycle_id: z.string(),
});
export type LoadStarted = z.infer<typeof loadStarted>;

/** Headers of uploads and commits (A.8): what the chunk is called, and how many there must be. */
export const chunkHeaders = { id: "x-ts-chunk-id", count: "x-ts-chunks" } as const;
