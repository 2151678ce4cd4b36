import type { Notice } from "./notice.ts";

/** What goes out by one channel at once: a notice, or what a digest has collected. It is kept on disk until it has gone. */
export interface Letter {
  /** Tells it from every other, and stays the same however often it is sent. */
  readonly id: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Not sent before; a digest collects until then. ISO 8601. */
  readonly dueAt: string;
  /** At least one, at most `mostNotices`; the oldest first. */
  readonly notices: readonly Notice[];
  /** How many more there were. */
  readonly more: number;
  /** Somebody tries the channel. */
  readonly test?: true;
}

/** A digest of more than so many notices is not read. */
export const mostNotices = 100;
