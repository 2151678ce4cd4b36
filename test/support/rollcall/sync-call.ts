import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { Directory } from "#service/directory/directory.ts";
import { SyncUpload } from "#service/directory/receive.ts";

export interface SyncCall {
  /** The principals, or a file that holds the list. */
  readonly list: readonly object[] | string;
  readonly apply: boolean;
  readonly removeDeleted: boolean;
  readonly defaultPassword?: string | undefined;
}

/** Calls `user/sync` of a directory as the administrator, without a server. @param folder for what arrives */
export async function callSync(
  directory: Directory,
  folder: string,
  { list, apply, removeDeleted, defaultPassword = "" }: SyncCall,
  signal = new AbortController().signal,
): Promise<Readable> {
  const part = (name: string, content: string): string =>
    `--B\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${content}`;
  async function* body(): AsyncGenerator<Buffer> {
    yield Buffer.from(
      `${part("applyChanges", String(apply))}\r\n${part("remoteDeleted", String(removeDeleted))}\r\n` +
        `${part("defaultPassword", defaultPassword)}\r\n${part("principals", "")}`,
    );
    if (typeof list === "string") yield* createReadStream(list) as AsyncIterable<Buffer>;
    else yield Buffer.from(JSON.stringify(list));
    yield Buffer.from("\r\n--B--\r\n");
  }
  const type = "multipart/form-data; boundary=B";
  const upload = new SyncUpload(Readable.from(body()), type, new URLSearchParams(), { folder, signal });
  try {
    const answer = await directory.sync(upload, "admin", signal);
    if (answer === undefined) throw new Error("the call has no list");
    return answer;
  } finally {
    await upload.discard();
  }
}
