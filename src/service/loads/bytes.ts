/** Checks text byte by byte. */
export interface Utf8Check {
  /** Whether a character has begun and is not complete, or the text was broken before. */
  isOpen(): boolean;
  /** Whether the text may go on with this byte. What is behind a byte that it may not is not looked at. */
  accepts(byte: number): boolean;
  /** Whether the text may end here. */
  isComplete(): boolean;
  reset(): void;
}

/** UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
export function createUtf8Check(): Utf8Check {
  /** How many bytes the character still needs, and what the next of them may be. */
  let missing = 0;
  let lowest = 0x80;
  let highest = 0xbf;

  function begin(byte: number): boolean {
    lowest = 0x80;
    highest = 0xbf;
    if (byte < 0x80) return true;
    if (byte < 0xc2 || byte > 0xf4) return false;
    missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    if (byte === 0xe0) lowest = 0xa0;
    if (byte === 0xed) highest = 0x9f;
    if (byte === 0xf0) lowest = 0x90;
    if (byte === 0xf4) highest = 0x8f;
    return true;
  }

  return {
    isOpen: () => missing > 0,
    accepts: (byte) => {
      if (missing === 0) return begin(byte);
      const is = byte >= lowest && byte <= highest;
      missing = is ? missing - 1 : 0;
      lowest = 0x80;
      highest = 0xbf;
      return is;
    },
    isComplete: () => missing === 0,
    reset: () => {
      missing = 0;
    },
  };
}

/** Whether `part` stands at `at`. */
export function equal(bytes: Uint8Array, at: number, part: Uint8Array): boolean {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}
