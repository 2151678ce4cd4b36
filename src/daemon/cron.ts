import { Cron } from "croner";

const nicknames: Readonly<Record<string, string>> = {
  "@minutely": "* * * * *",
  "@secondly": "* * * * * *",
  "@weekdays": "0 0 * * 1-5",
  "@weekends": "0 0 * * 0,6",
};

/** The largest value and the number of values of each field, the seconds first. */
const fields = [
  { last: 59, count: 60 },
  { last: 59, count: 60 },
  { last: 23, count: 24 },
  { last: 31, count: 31 },
  { last: 12, count: 12 },
  { last: 7, count: 7 },
] as const;
const [seconds, minutes, hours] = fields;

/** When a sync runs on schedule. */
export interface Slots {
  /** A cron expression. With both a day of the month and a weekday, either matches. */
  readonly expression: string;
  /** An IANA time zone; absent: the system's. */
  readonly timezone?: string;
}

/**
 * The first slot after a time, both in epoch milliseconds.
 * @throws {Error} if there is none, or the expression or the time zone is not known
 */
export function nextSlot({ expression, timezone }: Slots, after: number): number {
  return known(new CronSlots(expression, timezone).next(after));
}

/**
 * The last slot at or before a time, in epoch milliseconds.
 * @throws {Error} as `nextSlot`
 */
export function lastSlot({ expression, timezone }: Slots, before: number): number {
  // Slots have whole seconds, and the search begins before the second that it is given.
  const end = (Math.floor(before / 1000) + 1) * 1000;
  return known(new CronSlots(expression, timezone).last(end));
}

function known(slot: number | undefined): number {
  if (slot === undefined) throw new Error("the schedule has no slot");
  return slot;
}

/**
 * A cron expression in a time zone (absent: the system's). One that names hours comes once for each of its times: if the
 * clock skips it, right after; if it comes twice, the first time. One for every hour has only the times that there are, and
 * all of them.
 */
class CronSlots {
  readonly #cron: Cron;
  /** The same on a clock that is never changed; undefined if the expression is for every hour. */
  readonly #wall: Cron | undefined;
  readonly #zone: string | undefined;

  /** @throws {Error} if it is no cron expression */
  constructor(expression: string, timezone?: string) {
    const pattern = translated(expression);
    const zone = timezone === undefined ? {} : { timezone };
    this.#cron = new Cron(pattern, { ...options, ...zone });
    if (!/[*?/]/.test(pattern.split(" ").slice(0, 3).join(" ")))
      this.#wall = new Cron(pattern, { ...options, timezone: "UTC" });
    this.#zone = timezone;
  }

  /** The first slot after a time, both in epoch milliseconds; undefined if there is none. */
  next(after: number): number | undefined {
    const slot = this.#cron.nextRun(new Date(after))?.getTime();
    const skipped = this.#afterGap(this.#wall?.nextRun(new Date(wallTime(after, this.#zone))));
    return skipped !== undefined && skipped > after && !(slot !== undefined && slot <= skipped) ? skipped : slot;
  }

  /** The last slot before a time of whole seconds, both in epoch milliseconds; undefined if there is none. */
  last(before: number): number | undefined {
    const slot = this.#cron.previousRuns(1, new Date(before))[0]?.getTime();
    const skipped = this.#afterGap(this.#wall?.previousRuns(1, new Date(wallTime(before, this.#zone)))[0]);
    return skipped !== undefined && skipped < before && !(slot !== undefined && slot >= skipped) ? skipped : slot;
  }

  /**
   * When a slot comes that the clock skips; undefined for any other. To croner, such a slot comes on the same day or not at
   * all: in Greenland, where the clock goes from 23:00 to midnight, it would be lost.
   */
  #afterGap(slot: Date | null | undefined): number | undefined {
    if (slot === null || slot === undefined) return undefined;
    const wall = slot.getTime();
    let [before, after] = [wall - day, wall + day];
    const offsets = [before, after].map((time) => wallTime(time, this.#zone) - time);
    if (offsets.some((offset) => wallTime(wall - offset, this.#zone) === wall)) return undefined;
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (wallTime(middle, this.#zone) < wall) before = middle;
      else after = middle;
    }
    return after;
  }
}

const day = 86_400_000;
const options = { paused: true, mode: "5-or-6-parts", fixedTimeRule: "no-wildcard" } as const;

/** What a clock in a time zone shows, to the second, as the time at which one in UTC shows it. */
function wallTime(time: number, timeZone: string | undefined): number {
  const format = new Intl.DateTimeFormat("en-US", { ...wallFields, timeZone });
  const shown = new Map(format.formatToParts(time).map(({ type, value }) => [type, Number(value)]));
  const part = (type: Intl.DateTimeFormatPartTypes): number => shown.get(type) ?? 0;
  return Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"), part("second"));
}

const wallFields = {
  year: "numeric",
  month: "numeric",
  day: "numeric",
  hour: "numeric",
  minute: "numeric",
  second: "numeric",
  hourCycle: "h23",
} as const;

/** The same in croner's words: nicknames and steps that it does not know, and hours as it tells named ones from every one. */
function translated(expression: string): string {
  const text = expression.trim();
  const parts = (nicknames[text.toLowerCase()] ?? text).split(/\s+/);
  if (parts.length === 5) parts.unshift("0");
  if (parts.length !== 6) return text;
  // To croner, a sunday at the end of a range is always 7.
  parts.push((parts.pop() ?? "").replaceAll(/(^|,)(?:0+|sun)-sun/gi, "$10-0"));
  const [second = "", minute = "", hour = "", day = "", month = "", weekday = ""] = parts.map((part, place) =>
    part
      .split(",")
      .map((item) => withKnownStep(item, fields[place]))
      .join(","),
  );
  const rest = [
    // To croner, `*,L` is `*`, and then the weekday alone decides.
    day.includes(",") ? day.replaceAll(/[*?](?!\/)/g, "1-31") : day,
    month,
    weekday.replace(/^[*?](#\d)$/, "0$1,1$1,2$1,3$1,4$1,5$1,6$1"),
  ];
  const times = [valuesOf(second, seconds), valuesOf(minute, minutes), valuesOf(hour, hours)];
  if (times.includes(undefined)) return [second, minute, hour, ...rest].join(" ");
  return (times[2]?.length === hours.count ? [second, minute, "*", ...rest] : [...times, ...rest]).join(" ");
}

/** `5/15` as a range with a step, and a step beyond the field's end as the longest one. */
function withKnownStep(item: string, field: { last: number; count: number } | undefined): string {
  const [, range = "", step = ""] = /^([^/]+)\/(\d+)$/.exec(item) ?? [];
  if (range === "" || field === undefined) return item;
  const whole = /^(?:\d+|[a-z]{3})$/i.test(range) ? `${range}-${field.last}` : range;
  return `${whole}/${Math.min(Number(step), field.count)}`;
}

/** Every value of a part of the time; undefined if there is something else in it. */
function valuesOf(part: string, { last }: { last: number }): readonly number[] | undefined {
  const values = new Set<number>();
  for (const item of part.split(",")) {
    const found = /^(?:(\d+)|(?:[*?]|(\d+)-(\d+))(?:\/(\d+))?)$/.exec(item);
    if (found === null) return undefined;
    const [, only, first, to, step = "1"] = found;
    const from = Number(only ?? first ?? 0);
    const end = Number(only ?? to ?? last);
    if (step === "0" || from > end || end > last) return undefined;
    for (let value = from; value <= end; value += Number(step)) values.add(value);
  }
  return [...values].toSorted((a, b) => a - b);
}
