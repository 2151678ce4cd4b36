/**
 * What is read, in blocks of `size` bytes, each valid until the second one after it is asked for: one is sent while the next is
 * read. New ones would cost a garbage collection for every 64 MiB.
 * @param read reads into a buffer, and says how many bytes; 0: there are no more
 */
export async function* blocks(read: (into: Buffer) => Promise<number>, size: number): AsyncGenerator<Buffer> {
  let [block, other] = [Buffer.allocUnsafeSlow(size), Buffer.allocUnsafeSlow(size)];
  for (;;) {
    let length = 0;
    // Only for a whole block does whoever sends it wait before the next.
    while (length < size) {
      const more = await read(block.subarray(length));
      if (more === 0) break;
      length += more;
    }
    if (length > 0) yield block.subarray(0, length);
    if (length < size || size === 0) return;
    [block, other] = [other, block];
  }
}
