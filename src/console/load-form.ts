import { Refusal } from "#control/answers.ts";
import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters, LoadRequest } from "#wire/loads.ts";

/** The fields of the form that says how a file is read, by the names of the interface, and what a person calls them. */
export const labels = {
  type: "Kind of file",
  has_header_row: "The first row is a header",
  field_separator: "Separator",
  enclosing_character: "Quotes",
  escape_character: "Escape character",
  null_value: "Text for null",
  flexible: "Rows may have fields too many or too few",
  trailing_field_separator: "Rows end with a separator",
  converted_to_epoch: "Dates and datetimes are seconds since 1970",
  date_format: "Dates",
  date_time_format: "Datetimes",
  time_format: "Times",
  skip_second_fraction: "Drop fractions of seconds",
  use_bit_values: "Booleans are 0x1 and 0x0",
  true_format: "True",
  false_format: "False",
  empty_target: "Replace the rows of the table",
  max_ignored_rows: "Rows that may be rejected",
} as const;

export type FieldName = keyof typeof labels;

/** What a field may hold, where it is not any text. */
const expected: Partial<Record<FieldName, string>> = {
  type: "csv or delimited",
  field_separator: String.raw`one character; \t is a tab`,
  enclosing_character: "one character or nothing",
  escape_character: "one character or nothing",
  max_ignored_rows: "a whole number",
};

/** The values of the fields; a box that is ticked is `on`. */
export type LoadFields = Readonly<Record<FieldName, string>>;

/** How a load is done, as the form shows it. */
export function fieldsOf({ format, load_options: options }: LoadParameters): LoadFields {
  const { date_time: dates, boolean } = format;
  return {
    type: format.type,
    has_header_row: ticked(format.has_header_row),
    field_separator: written(format.field_separator),
    enclosing_character: written(format.enclosing_character),
    escape_character: written(format.escape_character),
    null_value: format.null_value,
    flexible: ticked(format.flexible),
    trailing_field_separator: ticked(format.trailing_field_separator),
    converted_to_epoch: ticked(dates.converted_to_epoch),
    date_format: dates.date_format,
    date_time_format: dates.date_time_format,
    time_format: dates.time_format,
    skip_second_fraction: ticked(dates.skip_second_fraction),
    use_bit_values: ticked(boolean.use_bit_values),
    true_format: boolean.true_format,
    false_format: boolean.false_format,
    empty_target: ticked(options.empty_target),
    max_ignored_rows: String(options.max_ignored_rows),
  };
}

/** What the form says. A field that is not in it is empty. */
export function readFields(form: URLSearchParams): LoadFields {
  return Object.fromEntries(Object.keys(labels).map((name) => [name, form.get(name) ?? ""])) as LoadFields;
}

/**
 * The load that the fields describe. Which table it is for is the service's to say.
 * @throws {Refusal} 400 naming the fields that are wrong
 */
export function requestOf(fields: LoadFields): LoadRequest {
  const has = (name: FieldName): boolean => fields[name] !== "";
  const request: LoadRequest = {
    target: { database: "-", table: "-" },
    format: {
      type: fields.type,
      has_header_row: has("has_header_row"),
      field_separator: read(fields.field_separator),
      enclosing_character: read(fields.enclosing_character),
      escape_character: read(fields.escape_character),
      null_value: fields.null_value,
      flexible: has("flexible"),
      trailing_field_separator: has("trailing_field_separator"),
      date_time: {
        converted_to_epoch: has("converted_to_epoch"),
        date_format: fields.date_format,
        date_time_format: fields.date_time_format,
        time_format: fields.time_format,
        skip_second_fraction: has("skip_second_fraction"),
      },
      boolean: {
        use_bit_values: has("use_bit_values"),
        true_format: fields.true_format,
        false_format: fields.false_format,
      },
    },
    load_options: {
      empty_target: has("empty_target"),
      max_ignored_rows: /^\d+$/.test(fields.max_ignored_rows.trim()) ? Number(fields.max_ignored_rows) : -1,
    },
  };
  const parsed = loadParameters.safeParse(request);
  if (parsed.success) return request;
  const problems = parsed.error.issues.map(({ path, message }) => {
    const name = path.at(-1);
    if (typeof name !== "string" || !(name in labels)) return message;
    return `${labels[name as FieldName]}: expected ${expected[name as FieldName] ?? "another value"}`;
  });
  throw new Refusal(400, "This does not describe how the file is read.", { problems });
}

function ticked(is: boolean): string {
  return is ? "on" : "";
}

/** As it is written on a command line, so that it can be seen. */
function written(character: string): string {
  return character === "\t" ? String.raw`\t` : character;
}

function read(character: string): string {
  return character === String.raw`\t` ? "\t" : character;
}
