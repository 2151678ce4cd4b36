import { InvalidArgumentError } from "commander";

/** A flag's value as a whole number. */
export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("expected a whole number.");
  return Number(text);
}

/** The same, and not 0. */
export function atLeastOne(text: string): number {
  const number = wholeNumber(text);
  if (number === 0) throw new InvalidArgumentError("expected a whole number, at least 1.");
  return number;
}

/** A number of bytes, for a person. */
export function inBytes(bytes: number): string {
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ] as const) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${bytes} bytes`;
}
