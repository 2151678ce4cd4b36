/** Gathers bytes to blocks. */
export interface Blocks {
  write(bytes: Buffer): void;
  /** Hands on what there is. */
  flush(): void;
}

/** @param take is given the blocks, of `size` bytes each but for those that are flushed: they are its to keep */
export function createBlocks(size: number, take: (block: Buffer) => void): Blocks {
  let block: Buffer | undefined;
  let filled = 0;

  function flush(): void {
    const whole = block?.subarray(0, filled);
    block = undefined;
    filled = 0;
    if (whole !== undefined) take(whole);
  }

  return {
    write: (bytes) => {
      for (let at = 0; at < bytes.length;) {
        block ??= Buffer.allocUnsafeSlow(size);
        const copied = bytes.copy(block, filled, at);
        at += copied;
        filled += copied;
        if (filled === size) flush();
      }
    },
    flush,
  };
}
