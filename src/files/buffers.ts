/**
 * What is shorter may be the parser's own, which it reuses: the beginning of a boundary, which is shorter than what Node accepts as
 * headers. In bytes.
 */
const longestReused = 16 * 1024;

/**
 * Frees the memory of a buffer that nobody uses any more, such as a piece of a request. Node makes a buffer of its own for each
 * and forgets it; left to garbage collection, they would cause one for every 20 MiB.
 */
export function giveBack({ buffer, length }: Buffer): void {
  if (length > longestReused && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
