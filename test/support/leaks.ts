import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { DuckDBInstance } from "@duckdb/node-api";

/** Where a secret was found and in which form. */
export interface Leak {
  readonly secret: string;
  readonly place: string;
  readonly form: string;
}

/**
 * The forms of a text: as it is, in JSON (also nested), in URLs and forms, in HTML, in hexadecimal, and in base64 at any
 * offset. For a text of several lines, also each long line.
 */
function formsOf(secret: string): ReadonlyMap<string, string> {
  const escaped = JSON.stringify(secret).slice(1, -1);
  const form = new URLSearchParams({ x: secret }).toString().slice(2);
  const html = secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const lines = secret.split(/\r?\n/).filter((line) => line.length > 20 && !line.startsWith("-----"));
  const forms: [string, string][] = [
    ["as it is", secret],
    ["in JSON", escaped],
    ["in JSON in JSON", JSON.stringify(escaped).slice(1, -1)],
    ["in a URL", encodeURIComponent(secret)],
    ["in a URL", encodeURI(secret)],
    ["in a form", form],
    ["in HTML", html.replaceAll('"', "&quot;")],
    ["in hexadecimal", Buffer.from(secret).toString("hex")],
    ...lines.map((line): [string, string] => ["a line of it", line]),
  ];
  for (const shift of [0, 1, 2]) {
    // The text around it changes the first and last characters.
    const encoded = Buffer.from(" ".repeat(shift) + secret)
      .toString("base64")
      .replace(/=+$/, "");
    const inner = encoded.slice(shift === 0 ? 0 : shift + 1, -2);
    forms.push(["in base64", inner], ["in base64url", inner.replaceAll("+", "-").replaceAll("/", "_")]);
  }
  // If several forms give the same text, the first one names it.
  return new Map(forms.toReversed().flatMap(([name, text]) => (text.length >= 6 ? [[text, name] as const] : [])));
}

/** Finds secrets, given by name, in any of their forms. */
export function leakFinder(
  secrets: Readonly<Record<string, string>>,
): (place: string, content: string | Buffer) => Leak[] {
  const forms = Object.entries(secrets).map(([name, secret]) => [name, formsOf(secret)] as const);
  return (place, content) => {
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    return forms.flatMap(([secret, texts]) =>
      [...texts].flatMap(([text, form]) => (bytes.includes(text) ? [{ secret, place, form }] : [])),
    );
  };
}

/** Every file below a folder, by its relative path. */
export async function filesBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

/**
 * The contents of a file: its bytes, decompressed if need be, and for a database or Parquet, which compress text, what
 * DuckDB reads in it. Nothing else may have the file open.
 */
export async function contentsOf(path: string): Promise<readonly Buffer[]> {
  const bytes = await readFile(path);
  const magic = bytes.subarray(0, 4).toString("hex");
  if (magic.startsWith("1f8b")) return [bytes, gunzipSync(bytes)];
  if (magic === "28b52ffd") return [bytes, zstdDecompressSync(bytes)];
  if (bytes.subarray(0, 4).toString() === "PAR1") return [bytes, await readParquet(path)];
  if (bytes.subarray(8, 12).toString() === "DUCK") return [bytes, await readDatabase(path)];
  return [bytes];
}

async function readParquet(path: string): Promise<Buffer> {
  return withDuckDb(async (rows) => Buffer.from(JSON.stringify(await rows(`FROM '${path}'`))));
}

async function readDatabase(path: string): Promise<Buffer> {
  return withDuckDb(async (rows) => {
    await rows(`ATTACH '${path}' AS it (READ_ONLY)`);
    const tables = await rows(
      "SELECT schema_name AS s, table_name AS t FROM duckdb_tables() WHERE database_name = 'it'",
    );
    const texts = await Promise.all(
      tables.map(async ({ s, t }) => JSON.stringify(await rows(`FROM it."${String(s)}"."${String(t)}"`))),
    );
    await rows("DETACH it");
    return Buffer.from(texts.join("\n"));
  });
}

type Rows = (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

async function withDuckDb<Result>(work: (rows: Rows) => Promise<Result>): Promise<Result> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  try {
    return await work(async (sql) => (await connection.runAndReadAll(sql)).getRowObjectsJson());
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
