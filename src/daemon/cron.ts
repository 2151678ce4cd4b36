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

/**
 * A cron expression in a time zone (absent: the system's). One that names hours comes once for each of its times: if the
 * clock skips it, right after; if it comes twice, the first time. One for every hour has only the times that there are, and
 * all of them.
 * @throws {Error} if it is no cron expression
 */
export function openCron(expression: string, timezone?: string): Cron {
  return new Cron(translated(expression), {
    paused: true,
    mode: "5-or-6-parts",
    fixedTimeRule: "no-wildcard",
    ...(timezone === undefined ? {} : { timezone }),
  });
}

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
