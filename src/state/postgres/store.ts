import { openPostgres } from "#postgres/database.ts";
import type { Postgres } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import type { Retention } from "#state/folder/journal.ts";
import { formatDuration, pluralize } from "#text.ts";
import { auditSchema } from "./audit.ts";
import { filesSchema, openSharedFiles } from "./files.ts";
import type { SharedFiles } from "./files.ts";
import { journalSchema, openSharedJournal } from "./journal.ts";
import type { SharedJournal } from "./journal.ts";
import { leadership, liveNodes, nodesSchema, openNode } from "./nodes.ts";
import type { Node } from "./nodes.ts";

/** The state of daemons that work together, in PostgreSQL, as one of them sees it. */
export interface SharedState {
  readonly postgres: Postgres;
  readonly node: Node;
  readonly journal: SharedJournal;
  /** Of the daemon's folder on this machine. */
  readonly files: SharedFiles;
  /** Gives the lease back. */
  close(): Promise<void>;
}

export interface SharedOptions {
  /** The daemon's folder. */
  readonly folder: string;
  /** How long this process may be silent before others take over, in milliseconds. */
  readonly lease: number;
  readonly retention: Retention;
}

/** Creates what is missing in the database. @throws as `migrate` does */
export function migrateShared(postgres: Postgres): Promise<void> {
  return migrate(postgres, [nodesSchema, journalSchema, auditSchema, filesSchema]);
}

/**
 * Takes part. Close it after use.
 * @throws {UnavailableError} when PostgreSQL does not answer; {InputError} when a newer program uses the database
 */
export async function openShared(
  settings: PostgresSettings,
  { folder, lease, retention }: SharedOptions,
): Promise<SharedState> {
  // Without an answer for that long, the lease is lost, and others do what was to be done.
  const postgres = await openPostgres(settings, { patience: lease });
  const renewals = await openPostgres({ ...settings, poolSize: 1 }, { patience: lease });
  const closeBoth = async (): Promise<void> => {
    await postgres.close();
    await renewals.close();
  };
  try {
    await migrateShared(postgres);
    const node = await openNode(postgres, lease, renewals);
    const close = async (): Promise<void> => {
      await node.close();
      await closeBoth();
    };
    try {
      const journal = await openSharedJournal(postgres, node, retention);
      return { postgres, node, journal, files: openSharedFiles(postgres, folder, node), close };
    } catch (error) {
      await node.close();
      throw error;
    }
  } catch (error) {
    await closeBoth();
    throw error;
  }
}

/**
 * What the database of the state says of itself, a line each. It creates nothing.
 * @param lease as configured, in milliseconds
 * @throws {UnavailableError} when PostgreSQL does not answer
 */
export async function describeShared(settings: PostgresSettings, lease: number): Promise<readonly string[]> {
  const postgres = await openPostgres(settings);
  try {
    const [server] = await postgres.rows<{ version: string; user: string; encrypted: boolean; ready: boolean }>(
      `SELECT current_setting('server_version') AS version, current_user::text AS user,
         coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted,
         to_regclass('rollcall.nodes') IS NOT NULL AS ready`,
    );
    const { version, user, encrypted, ready } = server ?? { version: "", user: "", encrypted: false, ready: false };
    const nodes = ready ? await liveNodes(postgres) : [];
    const names = nodes.map(({ name, claims }) => (claims.includes(leadership) ? `${name} (leads)` : name));
    return [
      `PostgreSQL ${version} at ${postgres.place}, ${encrypted ? "encrypted (TLS)" : "not encrypted"}, logged in as ${user}`,
      names.length === 0
        ? "no daemon is running on it"
        : `${pluralize(names.length, "process", "processes")}: ${names.join(", ")}`,
      `others take over ${formatDuration(lease)} after a process was last heard of`,
    ];
  } finally {
    await postgres.close();
  }
}
