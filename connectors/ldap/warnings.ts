/** How many warnings of one kind are said in full. */
const examples = 5;

/** Warnings that come once for each of many entries. */
export interface Warnings {
  /** @param kind what is wrong with all of them: `are not UTF-8` */
  add(kind: string, message: string): void;
  /** Tells how many there were besides those that were said. */
  close(): void;
}

export function warningsTo(warn: (message: string) => void): Warnings {
  const counts = new Map<string, number>();
  return {
    add: (kind, message) => {
      const count = (counts.get(kind) ?? 0) + 1;
      counts.set(kind, count);
      if (count <= examples) warn(message);
    },
    close: () => {
      for (const [kind, count] of counts) if (count > examples) warn(`${count - examples} more ${kind}`);
    },
  };
}
