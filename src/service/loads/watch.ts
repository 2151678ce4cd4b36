import { Worker } from "node:worker_threads";
import type { LoadFormat } from "./format.ts";
import { createScan } from "./scan.ts";
import type { Scan, Scanned } from "./scan.ts";
import type { ScanAnswer, ScanRequest } from "./scan-worker.ts";

/** Finds out what a chunk is made of while it arrives (see `createScan`). */
export interface Watch {
  /** The next piece of the chunk, which will be in its file as well. */
  take(piece: Buffer): void;
  /** The file is complete. Undefined: nothing is known. */
  end(): Promise<Scanned | undefined>;
  /** Nothing is wanted any more. Also after `end`. */
  close(): void;
}

/** A chunk that is larger is looked at by another thread, so that its upload need not wait, nor anybody else. In bytes. */
const inlineSize = 1024 * 1024;

/** How many bytes more there are before the other thread is told. */
const stride = 4 * 1024 * 1024;

/** @param path the file that the chunk is written to */
export function watchChunk(path: string, format: LoadFormat, width: number): Watch {
  let inline: Scan | undefined = createScan(format, width);
  let size = 0;
  let told = 0;
  let id: number | undefined;

  return {
    take: (piece) => {
      size += piece.length;
      if (size <= inlineSize) {
        inline?.take(piece);
      } else if (id === undefined) {
        inline = undefined;
        id = ++watches;
        worker().postMessage({ id, do: "open", path, format, width } satisfies ScanRequest);
      } else if (size - told > stride) {
        told = size;
        worker().postMessage({ id, do: "read" } satisfies ScanRequest);
      }
    },
    end: async () => {
      if (id === undefined) return inline?.end();
      const answer = Promise.withResolvers<Scanned | undefined>();
      waiting.set(id, answer.resolve);
      worker().postMessage({ id, do: "end", size } satisfies ScanRequest);
      return answer.promise;
    },
    close: () => {
      if (id !== undefined) worker().postMessage({ id, do: "close" } satisfies ScanRequest);
      id = undefined;
    },
  };
}

let watches = 0;
let running: Worker | undefined;
const waiting = new Map<number, (scanned: Scanned | undefined) => void>();

/** The one thread, once it is needed. Without it nothing is known of chunks, and they are looked at when they are loaded. */
function worker(): Worker {
  if (running !== undefined) return running;
  const started = new Worker(new URL("scan-worker.ts", import.meta.url));
  running = started;
  started.on("message", ({ id, scanned }: ScanAnswer) => {
    waiting.get(id)?.(scanned);
    waiting.delete(id);
  });
  started.on("error", () => undefined);
  started.on("exit", () => {
    running = undefined;
    for (const resolve of waiting.values()) resolve(undefined);
    waiting.clear();
  });
  started.unref();
  return started;
}
