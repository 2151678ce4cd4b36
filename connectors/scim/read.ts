import type { OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import type { Authorization } from "./authorization.ts";
import { assertEnough, type Counts } from "./batch.ts";
import { type FileOptions, readFiles } from "./files.ts";
import { type LiveOptions, readLive } from "./live.ts";
import type { Options } from "./options.ts";

/**
 * Everything of the server, or of the files.
 * @throws {IncompleteReadError} also when there are fewer users or groups than configured
 */
export async function* read(
  options: Options,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const counts: Counts = { user: 0, group: 0, membership: 0 };
  if (isLive(options)) yield* readLive(options, authorization, open, context, counts);
  else if (isFiles(options)) yield* readFiles(options, open, context, counts);
  assertEnough(counts, options, `source ${open.name}`);
}

/** Whether a server is read. */
export function isLive(options: Options): options is LiveOptions {
  return options.url !== undefined;
}

/** Whether files are read. */
export function isFiles(options: Options): options is FileOptions {
  return options.files !== undefined;
}
