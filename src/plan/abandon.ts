import type { WriteStream } from "node:fs";

/**
 * Stops writing to a file wherever it stands. Resolves when it is closed: until then what is removed keeps its place on the
 * disk, and a file that is still being created may appear in a folder that is being removed.
 */
export async function abandon(file: WriteStream): Promise<void> {
  // What was still to be written fails.
  file.on("error", () => undefined);
  const { promise, resolve } = Promise.withResolvers<void>();
  file.once("close", resolve);
  file.destroy();
  if (!file.closed) await promise;
}
