import { createWriteStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { create, extract } from "tar";
import { z } from "zod";
import { InputError, messageOf } from "#errors.ts";
import { codeOf, unreadable, unwritable } from "#files/disk.ts";
import { allFiles, digestOf } from "./files.ts";

/** The format of a backup that this program writes. A newer one is refused. */
export const format = 1;

export const manifestName = "backup.json";

/** The first file of a backup. */
const manifest = z.object({
  format: z.int(),
  /** The version of the program that made it. */
  rollcall: z.string(),
  /** ISO 8601. */
  createdAt: z.iso.datetime(),
  /** Where the service has its users and tables; absent: the configuration had no service. */
  engine: z.enum(["duckdb", "postgres"]).optional(),
  /** Where the daemon has its state. */
  state: z.enum(["folder", "postgres"]),
  files: z.record(z.string(), z.object({ size: z.int(), sha256: z.string() })),
});
export type Manifest = z.infer<typeof manifest>;

/** Writes what is in a folder into one file, the manifest first: a tar archive, compressed with Zstandard. */
export async function pack(folder: string, file: string, signal: AbortSignal): Promise<void> {
  const rest = (await allFiles(folder)).filter((path) => path !== manifestName);
  const archive = create({ cwd: folder, portable: true, zstd: true }, [manifestName, ...rest]);
  const written = createWriteStream(file, { mode: 0o600, flags: "wx", flush: true });
  try {
    await pipeline(Readable.from(archive), written, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw unwritable(`the backup ${file}`, error);
  }
}

/**
 * Unpacks a backup into an empty folder, and compares every file with the manifest.
 * @throws {InputError} when it is none, is not whole, or a newer program made it
 */
export async function unpack(file: string, folder: string): Promise<Manifest> {
  const given = await stat(file).catch(() => undefined);
  // It is read twice. A named pipe would even wait for a writer in a thread that nothing can end.
  if (given !== undefined && !given.isFile() && !given.isDirectory())
    throw new InputError(`the backup ${file} is a device or a pipe, not a regular file; save it to a file first`);
  try {
    const filter = (path: string): boolean => path === manifestName || /^(?:service|daemon)(?:\/|$)/.test(path);
    await extract({ file, cwd: folder, strict: true, preserveOwner: false, filter, dmode: 0o700, fmode: 0o600 });
  } catch (error) {
    if (["ENOENT", "EACCES", "EISDIR"].includes(codeOf(error))) throw unreadable(`the backup ${file}`, file, error);
    if (codeOf(error) === "ENOSPC") throw unwritable(`the folder ${folder}`, error);
    throw notWhole(file, messageOf(error), error);
  }
  const document = await readManifest(file, folder);
  const found = await allFiles(folder);
  for (const [path, expected] of Object.entries(document.files)) {
    if (!found.includes(path)) throw notWhole(file, `${path} is missing`);
    const { size, sha256 } = await digestOf(join(folder, path));
    if (size !== expected.size || sha256 !== expected.sha256)
      throw notWhole(file, `${path} is not as it was backed up`);
  }
  const other = found.find((path) => path !== manifestName && document.files[path] === undefined);
  if (other !== undefined) throw notWhole(file, `${other} does not belong to it`);
  return document;
}

async function readManifest(file: string, folder: string): Promise<Manifest> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(join(folder, manifestName), "utf8"));
  } catch (cause) {
    throw new InputError(`${file} is no backup of Rollcall: expected a file that \`rollcall backup\` has written`, {
      cause,
    });
  }
  const newer = z.object({ format: z.int().min(format + 1), rollcall: z.string() }).safeParse(content);
  if (newer.success)
    throw new InputError(
      `Rollcall ${newer.data.rollcall} made the backup ${file}: restore it with that version or a newer one`,
    );
  const parsed = manifest.safeParse(content);
  if (!parsed.success) throw notWhole(file, "its backup.json is damaged", parsed.error);
  return parsed.data;
}

function notWhole(file: string, why: string, cause?: unknown): InputError {
  return new InputError(
    `the backup ${file} is damaged or no backup: ${why}. Nothing was restored; take another backup`,
    { cause },
  );
}
