import { z } from "zod";

/* What a person writes into a configuration, wherever in it. */

/** Text that says what it is where it is missing, empty or no text. */
export function text(expected: string) {
  return z.string({ error: `expected ${expected}` }).min(1, { error: `expected ${expected}`, abort: true });
}

const milliseconds: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `15m`, `3h`, `7d`; never nothing. In milliseconds. */
export const duration = text("a duration like 90s, 15m, 3h, 7d")
  .regex(/^[1-9]\d{0,6}[smhd]$/, { error: "expected a duration like 90s, 15m, 3h, 7d" })
  .transform((value) => Number(value.slice(0, -1)) * (milliseconds[value.slice(-1)] ?? 0));

/** How long something is waited for: a duration that a timer of Node can hold. In milliseconds. */
export const patience = duration.refine((value) => value <= 24 * 86_400_000, {
  error: "expected a duration of at most 24d",
});
