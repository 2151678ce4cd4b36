import * as fc from "fast-check";
import { expect, test } from "vitest";
import { lastSlot, nextSlot } from "#daemon/cron.ts";
import { cases } from "../../support/random.ts";

const minute = 60_000;
const day = 86_400_000;

/** A local time as numbers: month, day, weekday, hour, minute; and all of it as one number that grows with it. */
interface Local {
  readonly fields: readonly [month: number, day: number, weekday: number, hour: number, minute: number];
  readonly at: number;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function localOf(time: number, zone: string): number {
  const format = formats.get(zone) ?? new Intl.DateTimeFormat("en-US", { ...numeric, timeZone: zone });
  formats.set(zone, format);
  const parts = new Map(format.formatToParts(time).map(({ type, value }) => [type, Number(value)]));
  const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
  return Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"));
}

const numeric: Intl.DateTimeFormatOptions = {
  year: "numeric",
  month: "numeric",
  day: "numeric",
  hour: "numeric",
  minute: "numeric",
  hourCycle: "h23",
};

function local(at: number): Local {
  const date = new Date(at);
  const [month, dayOfMonth] = [date.getUTCMonth() + 1, date.getUTCDate()];
  return { at, fields: [month, dayOfMonth, date.getUTCDay(), date.getUTCHours(), date.getUTCMinutes()] };
}

interface Case {
  readonly expression: string;
  /** Whether it names hours. */
  readonly named: boolean;
  matches(fields: Local["fields"]): boolean;
}

const named = (expression: string, matches: Case["matches"]): Case => ({ expression, named: true, matches });
const every = (expression: string, matches: Case["matches"]): Case => ({ expression, named: false, matches });
const expressions: readonly Case[] = [
  every("* * * * *", () => true),
  every("*/15 * * * *", ([, , , , m]) => m % 15 === 0),
  every("@hourly", ([, , , , m]) => m === 0),
  every("45 * * * *", ([, , , , m]) => m === 45),
  every("5/25 * * * 1-5", ([, , w, , m]) => [5, 30, 55].includes(m) && w >= 1 && w <= 5),
  every("0 0-23 * * *", ([, , , , m]) => m === 0),
  every("20,50 */1 * * 0", ([, , w, , m]) => (m === 20 || m === 50) && w === 0),
  named("@daily", ([, , , h, m]) => h === 0 && m === 0),
  named("@weekly", ([, , w, h, m]) => w === 0 && h === 0 && m === 0),
  named("30 2 * * *", ([, , , h, m]) => h === 2 && m === 30),
  named("*/20 2 * * *", ([, , , h, m]) => h === 2 && m % 20 === 0),
  named("* 1 * * *", ([, , , h]) => h === 1),
  named("0 1-3 * * *", ([, , , h, m]) => h >= 1 && h <= 3 && m === 0),
  named("15 0,2,23 * * *", ([, , , h, m]) => [0, 2, 23].includes(h) && m === 15),
  named("0 */2 * * *", ([, , , h, m]) => h % 2 === 0 && m === 0),
  named("30 3 * * 1-5", ([, , w, h, m]) => w >= 1 && w <= 5 && h === 3 && m === 30),
  named("59 23 * * 6", ([, , w, h, m]) => w === 6 && h === 23 && m === 59),
  named("0 0 13 * 0", ([, d, w, h, m]) => (d === 13 || w === 0) && h === 0 && m === 0),
  named(
    "45 1 * 3,4,9-11 sun",
    ([month, , w, h, m]) => [3, 4, 9, 10, 11].includes(month) && w === 0 && h === 1 && m === 45,
  ),
  named("0 0 * * 0#1", ([, d, w, h, m]) => w === 0 && d <= 7 && h === 0 && m === 0),
];

/** When the clock of a zone is changed, from 2024 to 2030. */
function changesOf(zone: string): readonly number[] {
  const offset = (time: number): number => localOf(time, zone) - time;
  const changes: number[] = [];
  for (let from = Date.UTC(2024, 0, 1); from < Date.UTC(2031, 0, 1); from += 7 * day) {
    let [before, after] = [from, from + 7 * day];
    if (offset(before) === offset(after)) continue;
    while (after - before > minute) {
      const middle = before + Math.floor((after - before) / 2 / minute) * minute;
      if (offset(middle) === offset(before)) before = middle;
      else after = middle;
    }
    changes.push(after);
  }
  return changes;
}

/** Every minute around a time, in order, with its local time, and the local times that are skipped before it. */
function minutesAround(change: number, zone: string) {
  const minutes: { time: number; now: Local; skipped: readonly Local[]; again: boolean }[] = [];
  let latest = localOf(change - 1.25 * day - minute, zone);
  for (let time = change - 1.25 * day; time <= change + 1.25 * day; time += minute) {
    const at = localOf(time, zone);
    const skipped = Array.from({ length: Math.max((at - latest) / minute - 1, 0) }, (_, index) =>
      local(latest + (index + 1) * minute),
    );
    minutes.push({ time, now: local(at), skipped, again: at <= latest });
    latest = Math.max(at, latest);
  }
  return minutes;
}

const zones = Intl.supportedValuesOf("timeZone").filter((zone) => {
  const offsets = [0, 2, 3, 5, 8, 10].map(
    (month) => localOf(Date.UTC(2026, month, 15), zone) - Date.UTC(2026, month, 15),
  );
  return new Set(offsets).size > 1;
});

test("every slot around every change of the clock is where counting minutes finds it", () => {
  fc.assert(
    fc.property(fc.constantFrom(...zones), fc.nat(), (zone, pick) => {
      const changes = changesOf(zone);
      const change = changes[pick % changes.length]!;
      const minutes = minutesAround(change, zone);
      for (const { expression, named, matches } of expressions) {
        const wanted = minutes.filter(({ now, skipped, again }) =>
          named
            ? (!again && matches(now.fields)) || skipped.some(({ fields }) => matches(fields))
            : matches(now.fields),
        );
        const slots = { expression, timezone: zone };
        const expected = wanted.map(({ time }) => new Date(time).toISOString());
        const found: string[] = [];
        const [first, end] = [minutes[0]!.time, minutes.at(-1)!.time];
        for (let slot = nextSlot(slots, first - 1); slot <= end; slot = nextSlot(slots, slot)) {
          found.push(new Date(slot).toISOString());
          if (found.length > 200 && expression.startsWith("* ")) break;
        }
        expect(found, `${expression} in ${zone}`).toEqual(expected.slice(0, found.length === 201 ? 201 : undefined));
        for (const now of [change - minute, change, change + minute, change + 61 * minute, change + day]) {
          const last = wanted.findLast(({ time }) => time <= now);
          if (last !== undefined)
            expect(new Date(lastSlot(slots, now + 999)).toISOString(), `${expression} in ${zone} before ${now}`).toBe(
              new Date(last.time).toISOString(),
            );
        }
      }
    }),
    // In Greenland the skipped hour is the last of a day.
    { numRuns: cases(3), examples: [["America/Godthab", 0]] },
  );
});
