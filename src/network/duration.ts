/** How long something is waited for, for a person: `500 ms`, `2.5 s`, `3 min`. @param duration in milliseconds */
export function inWords(duration: number): string {
  if (duration < 1000) return `${Math.round(duration)} ms`;
  if (duration < 120_000) return `${Math.round(duration / 100) / 10} s`;
  return `${Math.round(duration / 6000) / 10} min`;
}
