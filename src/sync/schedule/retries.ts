/** How a run that failed is tried again. Times are in milliseconds. */
export interface Retries {
  /** At most so often; 0: not at all. */
  readonly attempts: number;
  /** How long until the first time. Every further one waits twice as long. */
  readonly first: number;
  /** The longest wait. */
  readonly most: number;
}

/**
 * How long to wait before trying again, in milliseconds: never less than is configured, and up to a quarter more, so
 * that what failed at the same moment is not tried again at the same moment.
 * @param made how often it was tried again already
 * @param random from 0 to 1
 */
export function retryDelay({ first, most }: Retries, made: number, random: number): number {
  return Math.round(Math.min(first * 2 ** made, most) * (1 + random / 4));
}
