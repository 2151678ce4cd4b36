import type { CycleClient } from "./cycle.ts";
import type { FileData } from "./form.ts";

/** How far a load has come. */
export interface Progress {
  readonly phase: "upload" | "commit";
  /** Bytes that were sent, of the uploads under way too. */
  readonly bytes: number;
}

/**
 * Sends chunks, several at a time, numbered from 1 on. When one cannot be sent, the others under way are given up.
 * @returns how many bytes and chunks were sent
 */
export async function uploadAll(
  cycle: CycleClient,
  chunksUntil: (signal: AbortSignal) => AsyncGenerator<FileData>,
  options: {
    readonly parallel: number;
    readonly onProgress: (progress: Progress) => void;
    readonly signal: AbortSignal;
  },
): Promise<{ bytes: number; chunks: number }> {
  const failure = new AbortController();
  const signal = AbortSignal.any([options.signal, failure.signal]);
  const chunks = chunksUntil(signal);
  let count = 0;
  let bytes = 0;

  const counted = (data: FileData): FileData => {
    let sent = 0;
    return {
      ...data,
      bytes: async function* counting() {
        // Anew, when it is sent again.
        bytes -= sent;
        sent = 0;
        for await (const block of data.bytes()) {
          yield block;
          sent += block.length;
          bytes += block.length;
          options.onProgress({ phase: "upload", bytes });
        }
      },
    };
  };

  async function work(): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const next = await chunks.next();
      if (next.done === true) return;
      // In the order of the rows: the generator answers in the order in which it is asked.
      count += 1;
      await cycle.upload(count, counted(next.value), signal);
    }
  }

  const workers = Array.from({ length: options.parallel }, async () => {
    try {
      await work();
    } catch (error) {
      failure.abort(error);
    }
  });
  await Promise.all(workers);
  await chunks.return(undefined).catch(() => undefined);
  signal.throwIfAborted();
  return { bytes, chunks: count };
}
