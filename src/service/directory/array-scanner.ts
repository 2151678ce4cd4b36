/** What wants to know about the values that go by. Depth is how many arrays and objects are open around a value. */
export interface ArrayObserver {
  /**
   * An object begins at `from` that is an element of the array. The observer may read it by itself, when all of it is
   * in `bytes`, and is then told nothing else of it. It must be as strict as the scanner, and leave line ends alone.
   * @returns where the object has ended; -1 when the scanner is to read it; `pause` when the scanner is to stop before it
   */
  element(bytes: Buffer, from: number): number;
  /** A value begins with this byte. Only for depths up to 3. */
  value(depth: number, byte: number): void;
  /**
   * A string, a key or a value, has ended: the bytes it stands for are from `from` to `to`. Only for depths up to 3.
   * `to` is -1 for a string of more than 1,024 bytes that came in several pieces or has escapes.
   */
  string(depth: number, isKey: boolean, bytes: Buffer, from: number, to: number): void;
}

/** Has the scanner stop before an object. */
export const pause = -2;

/** Checks a JSON array as it arrives. */
export interface ArrayScanner {
  /**
   * The next bytes. They are changed in place, so that in the end each element stands in a line of its own, without
   * brackets and commas around it. After a problem they are left alone.
   * @returns how many of them were scanned: all of them, unless the observer had it stop
   */
  scan(bytes: Buffer): number;
  /**
   * Objects went by that were known to be well, and the comma behind the last of them: the next element follows.
   * @param bytes how many there were, as far as anybody wants to know
   */
  skip(elements: number, bytes: number): void;
  /** The text is complete. */
  end(): void;
  /** What is wrong with the text, and at which byte, as soon as it is known. */
  readonly problem: string | undefined;
  /** How many elements have ended, and where the line that follows them starts, counted from the first byte that was scanned. */
  readonly elements: number;
  readonly line: number;
  /** How many bytes were scanned. */
  readonly scanned: number;
  /** The length of the longest line so far, in bytes. */
  readonly longestLine: number;
}
