import { randomUUID } from "node:crypto";
import { cp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { makeFolder } from "#files/disk.ts";
import { readJson } from "#files/durable.ts";

/** Tables of a workbench as Parquet files in a folder of their own, and a document that names the folder. */
export class Snapshot<Document> {
  readonly document: Document;
  readonly #folder: string;

  constructor(document: Document, folder: string) {
    this.document = document;
    this.#folder = folder;
  }

  /** Makes a table, or a view, of one that is stored; false when it cannot be read. */
  async load(
    connection: Connection,
    table: string,
    as: string,
    kind: "TABLE" | "TEMP VIEW" = "TABLE",
  ): Promise<boolean> {
    const file = literal(join(this.#folder, `${table}.parquet`));
    return connection.run(`CREATE OR REPLACE ${kind} ${as} AS FROM read_parquet(${file})`).then(
      () => true,
      () => false,
    );
  }
}

/** @param name of a sync */
export async function findSnapshot<Document extends object>(
  folder: string,
  name: string,
): Promise<Snapshot<Document> | undefined> {
  const found = (await readJson(join(folder, `${name}.json`))) as (Document & { readonly folder: string }) | undefined;
  return typeof found?.folder === "string" ? new Snapshot(found, join(folder, found.folder)) : undefined;
}

/** Copies a snapshot, where there is one, to another folder. */
export async function copySnapshot(folder: string, name: string, to: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const found = await findSnapshot<{ readonly folder: string }>(folder, name);
    if (found === undefined) return;
    const { document } = found;
    await makeFolder(to, "the folder of the copy");
    try {
      await cp(join(folder, document.folder), join(to, document.folder), { recursive: true });
    } catch (error) {
      // Another one may have taken its place meanwhile.
      if (attempt === 3) throw error;
      continue;
    }
    await writeFile(join(to, `${name}.json`), JSON.stringify(document), { mode: 0o600 });
    return;
  }
}

/**
 * Takes the place of the snapshot before. Writes the tables first, into a folder of their own, and the document that names
 * it last: so a snapshot is stored whole or not at all.
 * @param tables a query for each
 * @param what for the error when the folder cannot be made
 */
export async function storeSnapshot(
  connection: Connection,
  { folder, name, what }: { readonly folder: string; readonly name: string; readonly what: string },
  tables: Readonly<Record<string, string>>,
  document: object,
): Promise<void> {
  const own = `${name}@${randomUUID()}`;
  const beside = `${own}.json`;
  // No name of a sync has an @.
  const remove = async (which: (other: string) => boolean): Promise<void> => {
    for (const other of await readdir(folder))
      if (other.startsWith(`${name}@`) && which(other)) await rm(join(folder, other), { recursive: true, force: true });
  };
  await makeFolder(join(folder, own), what);
  try {
    for (const [table, query] of Object.entries(tables))
      await connection.run(
        `COPY (${query}) TO ${literal(join(folder, own, `${table}.parquet`))} (FORMAT parquet, COMPRESSION zstd)`,
      );
    await writeFile(join(folder, beside), JSON.stringify({ ...document, folder: own }), { mode: 0o600 });
    await rename(join(folder, beside), join(folder, `${name}.json`));
  } catch (error) {
    // A disk that is full would become fuller with every attempt.
    await remove((other) => other === own || other === beside);
    throw error;
  }
  await remove((other) => other !== own);
}

/** Replaces the document, and keeps the tables. */
export async function replaceDocument(folder: string, name: string, document: object): Promise<void> {
  const beside = join(folder, `${name}@${randomUUID()}.json`);
  await writeFile(beside, JSON.stringify(document), { mode: 0o600 });
  await rename(beside, join(folder, `${name}.json`));
}
