import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { giveBack } from "./buffers.ts";

const bufferSize = 256 * 1024;

/** Writes a file through a buffer. It copies what it is given, and pieces longer than the buffer go past it. */
export class FileWriter {
  readonly #file: FileHandle;
  readonly #buffer = Buffer.allocUnsafeSlow(bufferSize);
  #length = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async open(path: string, flags: "w" | "wx"): Promise<FileWriter> {
    return new FileWriter(await open(path, flags, 0o600));
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#length + bytes.length > this.#buffer.length) await this.flush();
    if (bytes.length > this.#buffer.length) {
      await this.#file.writeFile(bytes);
      return;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** Writes what is in the buffer. */
  async flush(): Promise<void> {
    await this.#file.writeFile(this.#buffer.subarray(0, this.#length));
    this.#length = 0;
  }

  /** Writes everything, and syncs it to disk. */
  async sync(): Promise<void> {
    await this.flush();
    await this.#file.sync();
  }

  /** Closes the file. What was not flushed is lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
    giveBack(this.#buffer);
  }
}
