import { CronExpressionParser } from "cron-parser";
import { z } from "zod";
import { section } from "#values.ts";
import * as values from "#values.ts";

const attempts = "expected a whole number from 0 to 100";

export const cron = values.text('a cron expression like "*/15 * * * *"').refine(isCron, {
  error: 'expected a cron expression like "*/15 * * * *" (minute, hour, day, month, weekday)',
});

/** Five fields, six with the seconds first, or a nickname like `@daily`; `H`, a random value, is another at every start. */
function isCron(value: string): boolean {
  const fields = value.trim().split(/\s+/);
  if (!(fields.length === 1 && value.startsWith("@")) && ![5, 6].includes(fields.length)) return false;
  if (fields.some((field) => /(?:^|,)H/i.test(field))) return false;
  try {
    CronExpressionParser.parse(value).next();
    return true;
  } catch {
    return false;
  }
}

/** When a sync runs, in `syncs.NAME`. */
export const schedule = {
  schedule: cron.exactOptional().describe("When it runs, as a cron expression. Absent: only on demand."),
  timezone: values.timezone.exactOptional().describe("The time zone of the schedule. Absent: the system's."),
  jitter: values.duration
    .exactOptional()
    .describe("A run begins up to so much after its slot, another time at every slot. Absent: at once."),
  catchUp: z
    .boolean({ error: "expected true or false" })
    .prefault(true)
    .describe(
      "true: slots that passed while it could not run are made up for, once. false: the next slot is waited for.",
    ),
  retries: section({
    attempts: z
      .int({ error: attempts })
      .min(0, { error: attempts })
      .max(100, { error: attempts })
      .prefault(3)
      .describe("How often a run is tried again that failed because something did not answer."),
    first: values.duration
      .prefault("1m")
      .describe("How long until the first time; every further one waits twice as long."),
    most: values.duration.prefault("15m").describe("The longest wait."),
  }).describe("What becomes of a run that failed."),
  overdueAfter: values.duration
    .exactOptional()
    .describe("How long it may be without a success; then that is told, and /readyz says so. Absent: for ever."),
};
