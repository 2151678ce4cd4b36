/** How many bytes are looked at in one go. */
const size = 16 * 1024;

/** The text in UTF-8 between two places; what is none becomes U+FFFD. */
export type TextAt = (from: number, to: number) => string;

/**
 * Reads many short texts from bytes. Asking Node for each of them costs more than all the rest of reading an entry, so
 * that a stretch of bytes is asked for at once, one character a byte; what is ASCII is cut from there.
 */
export function windowOn(bytes: Buffer): TextAt {
  let start = 0;
  let end = -1;
  let characters = "";
  return (from, to) => {
    for (let at = from; at < to; at++) if ((bytes[at] ?? 0) > 0x7f) return bytes.toString("utf8", from, to);
    if (from < start || to > end) {
      if (to - from > size) return bytes.toString("latin1", from, to);
      start = from;
      end = Math.min(from + size, bytes.length);
      characters = bytes.toString("latin1", start, end);
    }
    return characters.slice(from - start, to - start);
  };
}
