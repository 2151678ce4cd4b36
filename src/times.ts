import { asCalled } from "./commands.ts";
import { formatNumber, pluralize } from "./text.ts";

let isLocal = false;

/** From here on, moments are shown in the time zone of this machine: for a person at a terminal. */
export function useLocalTime(local: boolean): void {
  isLocal = local;
}

/** A moment: `2026-11-21 10:12:35Z`, or with `useLocalTime` `2026-11-21 11:12:35+01:00`. */
export function exactly(iso: string): string {
  const at = new Date(iso);
  const offset = isLocal ? -at.getTimezoneOffset() : 0;
  const text = new Date(at.getTime() + offset * 60_000).toISOString().slice(0, 19).replace("T", " ");
  if (offset === 0) return `${text}Z`;
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const digits = [hours, minutes].map((part) => String(part).padStart(2, "0")).join(":");
  return `${text}${offset < 0 ? "-" : "+"}${digits}`;
}

/** A moment as messages are stored and sent with it; in quotation marks it is a value of somebody else. */
export const storedMoment = /(?<!["\w])(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?!["\w])/g;

/** A stored or sent message for whoever called this command: its commands can be pasted, its times are theirs. */
export function forCaller(text: string): string {
  const called = asCalled(text);
  return isLocal ? called.replace(storedMoment, exactly) : called;
}

const units = [
  { long: "day", narrow: "d", size: 86_400_000 },
  { long: "hour", narrow: "h", size: 3_600_000 },
  { long: "minute", narrow: "min", size: 60_000 },
  { long: "second", narrow: "s", size: 1000 },
] as const;

/** The distance to a moment: `just now`, `5 minutes ago`, `in 23 hours`; narrow: `0s ago`, `5min ago`. */
export function relatively(iso: string, now: number, style: "long" | "narrow" = "long"): string {
  const distance = Date.parse(iso) - now;
  if (style === "long" && Math.abs(distance) < 1000) return "just now";
  const { size, ...words } = units.find(({ size }) => Math.abs(distance) >= size) ?? units[3];
  const count = Math.floor(Math.abs(distance) / size);
  const amount = style === "long" ? pluralize(count, words.long) : `${formatNumber(count)}${words.narrow}`;
  return distance < 0 ? `${amount} ago` : `in ${amount}`;
}

/** A duration: `0.4 s`, `3 min 5 s`, `2 h 3 min`. */
export function lasting(milliseconds: number): string {
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  return hours === 0 ? `${minutes} min ${seconds % 60} s` : `${hours} h ${minutes % 60} min`;
}

/** By how much clocks may differ, in milliseconds. What is noted further in the future is from before a clock was set back. */
export const clockTolerance = 60_000;

/** Epoch milliseconds in ISO 8601. */
export function isoOf(time: number | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString();
}
