import { randomUUID } from "node:crypto";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { removeFile } from "#files/disk.ts";
import { jsonArray, syncArrays } from "#plan/lists.ts";
import { principalTypes } from "#wire/administration.ts";

/**
 * How DuckDB's COPY writes one column of JSON as lines. It would quote a line that holds the delimiter; JSON escapes control
 * characters, so no line does.
 */
export const lines = String.raw`(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER e'\x1F')`;

const chunk = 128 * 1024;

/**
 * Computes an answer of any length. DuckDB writes it to disk at full speed, without JavaScript touching a principal, and from
 * there it goes out at the client's pace: a slow reader holds up neither a transaction nor a sync. Its file is already unlinked
 * when this returns; the space is freed when the stream is closed.
 * @param folder for the file
 * @param query gives one column of text
 */
export async function computeAnswer(folder: string, connection: Connection, query: string): Promise<Readable> {
  const path = join(folder, randomUUID());
  try {
    return await writeAnswer(connection, query, path, lines);
  } finally {
    await removeFile(path);
  }
}

/** @param form how COPY writes the rows of the query */
async function writeAnswer(connection: Connection, query: string, path: string, form: string): Promise<Readable> {
  await connection.run(`COPY (${query}) TO ${literal(path)} ${form}`);
  await connection.returnMemory();
  return openAnswer(path);
}

async function openAnswer(path: string): Promise<Readable> {
  const file = await open(path, "r");
  return file.createReadStream({ highWaterMark: chunk });
}

/** The answer of `user/list` (B.9), a JSON array. It is computed once for each state of the directory, however many ask. */
export class ListAnswer {
  readonly #folder: string;
  /** The last one, and the state that it shows. */
  #last: { readonly state: string; readonly path: string } | undefined;

  /** @param folder for its file */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The answer for a state. Undefined: it is not there. */
  async find(state: string): Promise<Readable | undefined> {
    return this.#last?.state === state ? openAnswer(this.#last.path).catch(() => undefined) : undefined;
  }

  /**
   * Computes it anew.
   * @param connection with `actual_users` and `actual_groups`
   * @param state of before these were read
   */
  async compute(connection: Connection, state: string): Promise<Readable> {
    await this.forget();
    const path = join(this.#folder, randomUUID());
    try {
      const answer = await writeAnswer(connection, listAnswer, path, jsonArray);
      this.#last = { state, path };
      return answer;
    } catch (error) {
      await removeFile(path);
      throw error;
    }
  }

  /** Frees the space that it takes. */
  async forget(): Promise<void> {
    const last = this.#last;
    this.#last = undefined;
    if (last !== undefined) await removeFile(last.path);
  }
}

/** One principal as JSON (B.9), as SQL. `description` is there when it is set; `mail` always, for users. */
function element(type: string, hasMail: boolean): string {
  const object = (hasDescription: boolean): string => `to_json({
    name: name,
    displayName: display_name,
    ${hasDescription ? "description: description," : ""}
    ${hasMail ? "mail: coalesce(mail, '')," : ""}
    principalTypeEnum: '${type}',
    groupNames: group_names,
    visibility: 'DEFAULT',
    created: created,
    modified: modified
  })::VARCHAR`;
  return `CASE WHEN description IS NULL THEN ${object(false)} ELSE ${object(true)} END`;
}

/**
 * `user/list`, as a query of elements over `actual_users` and `actual_groups`: users first, then groups,
 * each by name. Rows are sorted before they are JSON: that takes half the memory.
 */
const listAnswer = `
  (SELECT ${element(principalTypes.user, true)} FROM (SELECT ${listed("mail, ")} FROM actual_users ORDER BY name))
  UNION ALL
  (SELECT ${element(principalTypes.group, false)} FROM (SELECT ${listed("")} FROM actual_groups ORDER BY name))`;

function listed(mail: string): string {
  return `name, display_name, description, ${mail}group_names, created, modified`;
}

/** The answer of `user/sync` (specification 2.8), as a query of lines; the names sorted by code point (B.8). */
export function syncAnswer(changes: string): string {
  const values = syncArrays.map(([label, action, kind], index) => `(${index + 1}, '${label}', '${action}', '${kind}')`);
  return `
    WITH arrays(position, label, action, kind) AS (VALUES ${values.join(", ")}),
    named AS (SELECT position, name FROM ${changes} JOIN arrays USING (action, kind)),
    firsts AS (SELECT position, min(name) AS first FROM named GROUP BY position)
    SELECT line FROM (
      SELECT position, false AS is_name, '' AS name,
        CASE position WHEN 1 THEN '{' ELSE '],' END || '"' || label || '":[' AS line
      FROM arrays
      UNION ALL
      SELECT position, true, name, CASE WHEN name = first THEN '' ELSE ',' END || to_json(name)::VARCHAR
      FROM named JOIN firsts USING (position)
      UNION ALL
      SELECT ${syncArrays.length + 1}, false, '', ']}'
    ) ORDER BY position, is_name, name`;
}
