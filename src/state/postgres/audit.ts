import type { Postgres } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createQueue } from "#queue.ts";
import { beginning, currentName, sealed } from "#state/audit/chain.ts";
import type { AuditChain } from "#state/audit/chain.ts";
import { redacted } from "#state/audit/entry.ts";
import type { AuditEntry, Head } from "#state/audit/entry.ts";
import type { AuditLog } from "#state/store.ts";
import type { Node } from "./nodes.ts";

/** The lines of the audit log, one chain for all processes, and its end: without that, cut-off lines would not be missed. */
export const auditSchema: Schema = {
  part: "audit",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.audit (sequence bigint PRIMARY KEY, line text NOT NULL);
     CREATE TABLE IF NOT EXISTS rollcall.audit_head (
       single boolean PRIMARY KEY DEFAULT true CHECK (single), sequence bigint NOT NULL, hash text NOT NULL);
     INSERT INTO rollcall.audit_head (sequence, hash) VALUES (0, repeat('0', 64)) ON CONFLICT DO NOTHING`,
  ],
};

type Rows = Pick<Postgres, "rows">;

/** The audit log of several processes. The database lets one append at a time. */
export class PostgresAudit implements AuditLog {
  readonly #node: Pick<Node, "fenced" | "now">;
  readonly #queue = createQueue();
  #last: Head;

  private constructor(node: Pick<Node, "fenced" | "now">, last: Head) {
    this.#node = node;
    this.#last = last;
  }

  static async open(postgres: Rows, node: Pick<Node, "fenced" | "now">): Promise<PostgresAudit> {
    return new PostgresAudit(node, await readHead(postgres));
  }

  append(entry: AuditEntry): Promise<void> {
    return this.#queue(async () => {
      this.#last = await this.#node.fenced(async (transaction) => {
        const before = await readHead(transaction, "FOR UPDATE");
        const { head, line } = sealed(redacted(entry), before, new Date(this.#node.now()));
        await transaction.rows("INSERT INTO rollcall.audit (sequence, line) VALUES ($1, $2)", [head.sequence, line]);
        await writeHead(transaction, head);
        return head;
      });
    });
  }

  head(): Head {
    return this.#last;
  }

  /** Waits for the appends under way. */
  close(): Promise<void> {
    return this.#queue.idle();
  }
}

/** The last entry, as the database remembers it beside the entries. */
async function readHead(postgres: Rows, lock: "FOR UPDATE" | "" = ""): Promise<Head> {
  const [row] = await postgres.rows<{ sequence: bigint; hash: string }>(
    `SELECT sequence, hash FROM rollcall.audit_head ${lock}`,
  );
  return row === undefined ? beginning : { sequence: Number(row.sequence), hash: row.hash };
}

export async function writeHead(postgres: Rows, { sequence, hash }: Head): Promise<void> {
  await postgres.rows("UPDATE rollcall.audit_head SET sequence = $1, hash = $2", [sequence, hash]);
}

/** The audit log of a database, as one file. */
export function chainIn(postgres: Rows): AuditChain {
  return {
    files: async () => [{ name: currentName, kind: "current" }],
    read: () => linesIn(postgres),
    head: () => readHead(postgres),
  };
}

/** How many lines are read at once. */
const linesAtOnce = 1_000;

async function* linesIn(postgres: Rows): AsyncGenerator<Buffer> {
  for (let last = -1n; ;) {
    const rows = await postgres.rows<{ sequence: bigint; line: string }>(
      `SELECT sequence, line FROM rollcall.audit WHERE sequence > $1 ORDER BY sequence LIMIT ${linesAtOnce}`,
      [last],
    );
    if (rows.length > 0) yield Buffer.from(rows.map(({ line }) => `${line}\n`).join(""));
    if (rows.length < linesAtOnce) return;
    last = rows.at(-1)?.sequence ?? last;
  }
}
