import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { noAccess, parseAccess } from "#state/access.ts";
import type { Access, AccessChange } from "#state/access.ts";
import type { AccessStore } from "#state/store.ts";
import type { Node } from "./nodes.ts";

export const accessSchema: Schema = {
  part: "access",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.access (
       single boolean PRIMARY KEY DEFAULT true CHECK (single), document json NOT NULL)`,
  ],
};

/** How long what others may have changed is taken for current, in milliseconds. */
const currentFor = 500;

/** Accounts, sessions and tokens, as one row. */
export class PostgresAccess implements AccessStore {
  readonly #postgres: Postgres;
  readonly #node: Pick<Node, "fenced"> | undefined;
  #known: { readonly access: Promise<Access>; readonly read: number } | undefined;

  /** @param node absent: they are only read */
  constructor(postgres: Postgres, node?: Pick<Node, "fenced">) {
    this.#postgres = postgres;
    this.#node = node;
  }

  read(): Promise<Access> {
    const now = performance.now();
    if (this.#known === undefined || now - this.#known.read > currentFor) {
      const access = readAccess(this.#postgres, this.#postgres.place);
      this.#known = { access, read: now };
      // What failed is asked again.
      access.catch(() => (this.#known = undefined));
    }
    return this.#known.access;
  }

  async change<Result>(work: AccessChange<Result>): Promise<Result> {
    if (this.#node === undefined) throw new Error("these accounts are only read");
    const [access, result] = await this.#node.fenced(async (transaction) => {
      // One after the other, the first one too: there is no row yet that it could lock.
      await transaction.lock("access");
      const before = await readAccess(transaction, this.#postgres.place);
      const changed = work(before);
      if (changed[0] !== before) await writeAccess(transaction, changed[0]);
      return changed;
    });
    this.#known = { access: Promise.resolve(access), read: performance.now() };
    return result;
  }
}

export async function readAccess(rows: Pick<Transaction, "rows">, place: string): Promise<Access> {
  const [row] = await rows.rows<{ document: unknown }>("SELECT document FROM rollcall.access");
  return row === undefined ? noAccess : parseAccess(row.document, `the database ${place}`);
}

export async function writeAccess(transaction: Pick<Transaction, "rows">, access: Access): Promise<void> {
  await transaction.rows(
    `INSERT INTO rollcall.access (document) VALUES ($1::json) ON CONFLICT (single) DO UPDATE SET document = excluded.document`,
    [JSON.stringify(access)],
  );
}
