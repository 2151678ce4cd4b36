import type { Database } from "./resources.ts";

/** What a provider proves itself with. There may be several at a time. Times are epoch milliseconds. */
export interface InboxToken {
  readonly id: string;
  /** SHA-256 of it, in hexadecimal: nobody can read the token itself any more. */
  readonly digest: string;
  /** What people call it. */
  readonly name: string;
  readonly created: number;
  /** Absent: never. */
  readonly used?: number | undefined;
}

/** Changes the tokens of a source. */
export class InboxTokens {
  readonly #source: string;
  readonly #database: Database;

  constructor(source: string, database: Database) {
    this.#source = source;
    this.#database = database;
  }

  async add({ id, digest, name, created }: Omit<InboxToken, "used">): Promise<void> {
    await this.#database.rows(
      "INSERT INTO rollcall.inbox_tokens (source, id, digest, name, created) VALUES ($1, $2, $3, $4, $5)",
      [this.#source, id, digest, name, created],
    );
  }

  /** @returns whether it was there */
  async remove(id: string): Promise<boolean> {
    const sql = "DELETE FROM rollcall.inbox_tokens WHERE source = $1 AND id = $2 RETURNING id";
    return (await this.#database.rows(sql, [this.#source, id])).length > 0;
  }

  /** Notes that one was used. @param at epoch milliseconds */
  async use(id: string, at: number): Promise<void> {
    await this.#database.rows("UPDATE rollcall.inbox_tokens SET used = $3 WHERE source = $1 AND id = $2", [
      this.#source,
      id,
      at,
    ]);
  }
}
