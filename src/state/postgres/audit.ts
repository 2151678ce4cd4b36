import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { syncFolder } from "#files/durable.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createQueue } from "#queue.ts";
import { redacted } from "#state/folder/audit.ts";
import type { Audit } from "#state/folder/audit.ts";
import { beginning, currentName, sealed } from "#state/audit/chain.ts";
import type { Head } from "#state/audit/entry.ts";
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

/** The audit log of several processes. The database lets one append at a time. */
export async function openSharedAudit(postgres: Postgres, node: Pick<Node, "fenced" | "now">): Promise<Audit> {
  let head = await sharedHead(postgres);
  const queue = createQueue();
  return {
    append: (entry) =>
      queue(async () => {
        head = await node.fenced(async (transaction) => {
          const [last] = await transaction.rows<HeadRow>("SELECT sequence, hash FROM rollcall.audit_head FOR UPDATE");
          const next = sealed(redacted(entry), headOf(last), new Date(node.now()));
          await transaction.rows("INSERT INTO rollcall.audit (sequence, line) VALUES ($1, $2)", [
            next.head.sequence,
            next.line,
          ]);
          await transaction.rows("UPDATE rollcall.audit_head SET sequence = $1, hash = $2", [
            next.head.sequence,
            next.head.hash,
          ]);
          return next.head;
        });
      }),
    head: () => head,
    close: () => queue.idle(),
  };
}

interface HeadRow {
  readonly sequence: bigint;
  readonly hash: string;
}

function headOf(row: HeadRow | undefined): Head {
  return row === undefined ? beginning : { sequence: Number(row.sequence), hash: row.hash };
}

/** The last entry, as the database remembers it beside the entries. */
export async function sharedHead(postgres: Pick<Postgres, "rows">): Promise<Head> {
  const [row] = await postgres.rows<HeadRow>("SELECT sequence, hash FROM rollcall.audit_head");
  return headOf(row);
}

/** The lines of the log as its file has them. Neither of the two characters is ever in a line, which is JSON. */
export function linesOfAudit(transaction: Pick<Transaction, "copyOut">): Readable {
  return transaction.copyOut(
    String.raw`COPY (SELECT line FROM rollcall.audit ORDER BY sequence) TO STDOUT (FORMAT csv, DELIMITER E'\x1F', QUOTE E'\x1E')`,
  );
}

/** Writes the log into a folder as its file, the way it is without a database. */
export async function writeAuditFile(transaction: Pick<Transaction, "copyOut">, folder: string): Promise<void> {
  const path = join(folder, currentName);
  const beside = `${path}.${randomUUID()}.new`;
  try {
    await pipeline(linesOfAudit(transaction), createWriteStream(beside, { mode: 0o600, flush: true }));
    await rename(beside, path);
    await syncFolder(folder);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
