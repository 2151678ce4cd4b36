import { closeSync, openSync, readSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import type { LoadFormat } from "./format.ts";
import { createScan } from "./scan.ts";
import type { Scan, Scanned } from "./scan.ts";

/** A thread that looks at files while they are written. */
export type ScanRequest =
  | {
      readonly id: number;
      readonly do: "open";
      readonly path: string;
      readonly format: LoadFormat;
      readonly width: number;
    }
  /** More has been written. */
  | { readonly id: number; readonly do: "read" }
  /** The file is complete, and has so many bytes. It is answered. */
  | { readonly id: number; readonly do: "end"; readonly size: number }
  | { readonly id: number; readonly do: "close" };

export interface ScanAnswer {
  readonly id: number;
  /** Undefined: the file could not be read. */
  readonly scanned: Scanned | undefined;
}

interface Reading {
  readonly path: string;
  readonly scan: Scan;
  /** Once there is something to read. */
  file?: number;
  size: number;
}

const readings = new Map<number, Reading>();
const buffer = Buffer.allocUnsafe(256 * 1024);

function read(reading: Reading): void {
  const file = (reading.file ??= openSync(reading.path, "r"));
  for (;;) {
    const length = readSync(file, buffer, 0, buffer.length, reading.size);
    if (length === 0) return;
    reading.scan.take(buffer.subarray(0, length));
    reading.size += length;
  }
}

function close(id: number): void {
  const file = readings.get(id)?.file;
  if (file !== undefined) closeSync(file);
  readings.delete(id);
}

function handle(request: ScanRequest): void {
  const { id } = request;
  if (request.do === "open") {
    readings.set(id, { path: request.path, scan: createScan(request.format, request.width), size: 0 });
    return;
  }
  const reading = readings.get(id);
  if (request.do !== "close" && reading !== undefined) read(reading);
  if (request.do === "end") {
    const scanned = reading?.size === request.size ? reading.scan.end() : undefined;
    parentPort?.postMessage({ id, scanned } satisfies ScanAnswer);
  }
  if (request.do !== "read") close(id);
}

parentPort?.on("message", (request: ScanRequest) => {
  try {
    handle(request);
  } catch {
    // What could not be read is looked at once more when it is loaded.
    close(request.id);
    if (request.do === "end") parentPort?.postMessage({ id: request.id, scanned: undefined } satisfies ScanAnswer);
  }
});
