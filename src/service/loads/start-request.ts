import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters } from "#wire/loads.ts";
import { formatOf } from "./load-format.ts";
import type { LoadFormat } from "./load-format.ts";
import { isUnderstood, parseTime } from "./strptime.ts";

/** Reads the body of StartLoad (A.3). Undefined when it is not valid. */
export function readStartRequest(body: string): LoadParameters | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  const parsed = loadParameters.safeParse(value);
  return parsed.success && formatsOf(formatOf(parsed.data)).every(isUnderstood) ? parsed.data : undefined;
}

/** @throws {InputError} when a format of dates or times is not understood: which, and why */
export function checkFormats(parameters: LoadParameters): void {
  for (const format of formatsOf(formatOf(parameters)))
    parseTime("''", { format, skipSecondFraction: false, secondFractionStart: "." });
}

/** The formats in effect, whatever columns the table has (A.18). */
function formatsOf({ convertedToEpoch, dateFormat, dateTimeFormat, timeFormat }: LoadFormat): readonly string[] {
  return convertedToEpoch ? [timeFormat] : [timeFormat, dateFormat, dateTimeFormat];
}
