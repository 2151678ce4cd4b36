/** Where a scale has a tick, in its own values, and its label. */
export interface Tick {
  readonly value: number;
  readonly label: string;
}

type Range = readonly [low: number, high: number];

/** The lowest and the highest of some values. */
export function rangeOf(values: readonly number[]): Range {
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

/** The smallest step of 1, 2 or 5 (times a power of ten) of which a range has at most `count`. */
function stepOf([low, high]: Range, count: number): number {
  const least = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((each) => each * power >= least) ?? 10);
}

/** The range in whole steps; a range of one value gets room. */
export function niceRange(range: Range, count: number): Range {
  const [low, high] = range;
  if (low === high) return [Math.min(0, 2 * low), Math.max(0, 2 * low) || 1];
  const step = stepOf(range, count);
  return [Math.floor(low / step) * step, Math.ceil(high / step) * step];
}

/** Ticks at multiples of 1, 2 or 5, with labels as short as they are distinct: `0.25`, `1,500`, `1.2M`. */
export function numberTicks(range: Range, count: number, isWhole: boolean): Tick[] {
  const [low, high] = range;
  const step = Math.max(stepOf(low === high ? [0, 1] : range, count), isWhole ? 1 : 0);
  const most = Math.max(Math.abs(low), Math.abs(high), step);
  const format = new Intl.NumberFormat("en", {
    maximumSignificantDigits: Math.min(21, 1 + Math.floor(Math.log10(most)) - Math.floor(Math.log10(step))),
    notation: most >= 1e15 || most < 1e-4 ? "scientific" : most >= 1e5 ? "compact" : "standard",
  });
  // What a division loses must not lose a tick at either end.
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) => {
    const value = (first + index) * step;
    return { value, label: value === 0 ? "0" : format.format(value).replace(/^-/, "−") };
  });
}

const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];
const parts = [1, 5, 15, 30];
const steps = [
  ...parts.map((each) => each * second),
  ...parts.map((each) => each * minute),
  ...[1, 3, 6, 12].map((each) => each * hour),
  ...[1, 2, 7, 14].map((each) => each * day),
];
const months = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000];

/** Ticks at whole seconds, minutes, hours, days, weeks (on Mondays), months or years of UTC. */
export function timeTicks([low, high]: Range, count: number): Tick[] {
  const values: number[] = [];
  const step = steps.find((each) => (high - low) / each <= count);
  if (step === undefined) {
    const size = months.find((each) => (high - low) / (each * 30.4 * day) <= count) ?? 12_000;
    const year = new Date(low).getUTCFullYear();
    const from = Math.floor((year * 12) / size) * size;
    for (let month = from, at = monthAt(from); at <= high; at = monthAt((month += size)))
      if (at >= low) values.push(at);
  } else {
    // The epoch was a Thursday.
    const offset = step >= 7 * day ? 4 * day : 0;
    for (let at = Math.ceil((low - offset) / step) * step + offset; at <= high; at += step) values.push(at);
  }
  const shown = values.length === 0 ? [low] : values;
  const labels = momentLabels(shown);
  return shown.map((value, index) => ({ value, label: labels[index] ?? "" }));
}

/** @param month counted since the year 0 */
function monthAt(month: number): number {
  return new Date(0).setUTCFullYear(Math.floor(month / 12), month % 12, 1);
}

/** Moments as short as they are clear: years, months, days, or with the time. */
export function momentLabels(moments: readonly number[]): string[] {
  const texts = moments.map((each) => new Date(each).toISOString());
  const whole = "0000-01-01T00:00:00.000Z";
  const length = [4, 7, 10, 16, 19].find((length) => texts.every((text) => text.slice(length) === whole.slice(length)));
  return texts.map((text) => text.slice(0, length ?? 23).replace("T", " "));
}
