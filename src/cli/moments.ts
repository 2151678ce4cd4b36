import { InvalidArgumentError } from "commander";
import { duration } from "#config/values.ts";

/** A moment for a person: `2026-11-21 10:12:35Z`. */
export function exactly(iso: string): string {
  return `${new Date(iso).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

const words = {
  long: new Intl.RelativeTimeFormat("en", { style: "long" }),
  narrow: new Intl.RelativeTimeFormat("en", { style: "narrow" }),
};

/** How far away a moment is: `5 minutes ago`, `in 23 hours`; narrow: `5min ago`. */
export function relatively(iso: string, now: number, style: "long" | "narrow" = "long"): string {
  const distance = Date.parse(iso) - now;
  const [unit, size] = units.find(([, size]) => Math.abs(distance) >= size) ?? ["second", 1000];
  return words[style].format(Math.trunc(distance / size), unit);
}

/** How long something took: `0.4 s`, `3 min 5 s`, `2 h 3 min`. */
export function lasting(milliseconds: number): string {
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  return hours === 0 ? `${minutes} min ${seconds % 60} s` : `${hours} h ${minutes % 60} min`;
}

/** A flag's value as a moment: `24h` ago, or a date or moment of ISO 8601, in UTC where it does not say; in epoch milliseconds. */
export function momentText(value: string): number {
  const ago = duration.safeParse(value);
  if (ago.success) return Date.now() - ago.data;
  const parts = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(value);
  const moment =
    parts === null
      ? Number.NaN
      : Date.parse(value.replace(" ", "T") + (value.length > 10 && parts[1] === undefined ? "Z" : ""));
  if (Number.isNaN(moment))
    throw new InvalidArgumentError(
      "Expected a duration like 24h or 7d, or a moment like 2026-11-21 or 2026-11-21T08:00Z.",
    );
  return moment;
}
