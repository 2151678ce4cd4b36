import { dirname, join } from "node:path";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { Postgres } from "#postgres/database.ts";
import { CountsInPostgres, throttleSchema } from "#postgres/failed-logins.ts";
import { checkServer, migrate } from "#postgres/migrations.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { hasRuns } from "#state/folder/journal.ts";
import type { Reader, Store, StoreOptions } from "#state/store.ts";
import { formatDuration, pluralize } from "#text.ts";
import { Throttle } from "#throttle.ts";
import type { ThrottleOptions } from "#throttle.ts";
import { accessSchema, PostgresAccess } from "./access.ts";
import { auditSchema, chainIn, PostgresAudit } from "./audit.ts";
import { filesSchema, PostgresFiles } from "./files.ts";
import { inboxSchema, PostgresInboxes } from "./inbox.ts";
import { journalSchema, PostgresJournal, readJournal } from "./journal.ts";
import { leadership, liveNodes, nodesSchema, openNode } from "./nodes.ts";
import type { Node } from "./nodes.ts";

/** The state of daemons that work together, in PostgreSQL, as one of them sees it. */
export class PostgresStore implements Store {
  readonly place: string;
  readonly isShared = true;
  readonly journal: PostgresJournal;
  readonly audit: PostgresAudit;
  readonly access: PostgresAccess;
  /** Of the daemon's folder on this machine. */
  readonly files: PostgresFiles;
  readonly inboxes: PostgresInboxes;
  readonly lease: Node;
  readonly #postgres: Postgres;
  readonly #closePools: () => Promise<void>;

  private constructor(
    postgres: Postgres,
    parts: Pick<PostgresStore, "journal" | "audit" | "access" | "files" | "lease">,
    closePools: () => Promise<void>,
  ) {
    this.place = postgres.place;
    this.#postgres = postgres;
    this.journal = parts.journal;
    this.audit = parts.audit;
    this.access = parts.access;
    this.files = parts.files;
    this.inboxes = new PostgresInboxes(postgres);
    this.lease = parts.lease;
    this.#closePools = closePools;
  }

  /**
   * Takes part.
   * @param lease how long this process may be silent before others take over, in milliseconds
   * @throws {UnavailableError} when PostgreSQL does not answer; {InputError} when a newer program uses the database, or has
   *   no state while there is one in the folder
   */
  static async open(
    settings: PostgresSettings,
    lease: number,
    { folder, retention }: StoreOptions,
  ): Promise<PostgresStore> {
    await makeFolder(folder, "the daemon's folder");
    // Without an answer for that long, the lease is lost, and others do what was to be done.
    const postgres = await Postgres.open(settings, { patience: lease });
    const renewals = await Postgres.open({ ...settings, poolSize: 1 }, { patience: lease });
    const closePools = async (): Promise<void> => {
      await postgres.close();
      await renewals.close();
    };
    let node: Node | undefined;
    try {
      await migrateState(postgres);
      node = await openNode(postgres, lease, renewals);
      const journal = await PostgresJournal.open(postgres, node, retention);
      if (journal.runs.length === 0) await refuseOtherState(dirname(folder), postgres);
      const audit = await PostgresAudit.open(postgres, node);
      const files = new PostgresFiles(postgres, folder, node);
      const access = new PostgresAccess(postgres, node);
      return new PostgresStore(postgres, { journal, audit, access, files, lease: node }, closePools);
    } catch (error) {
      await node?.close();
      await closePools();
      throw error;
    }
  }

  throttle(options: Omit<ThrottleOptions, "now">): Throttle {
    const timed = { ...options, now: () => this.lease.now() };
    return new Throttle(timed, new CountsInPostgres(timed, this.#postgres));
  }

  async close(): Promise<void> {
    await this.audit.close();
    await this.lease.close();
    await this.#closePools();
  }
}

/**
 * Opens the state to read it.
 * @param folder for copies of its files. Those of the daemon's folder itself belong to its process
 * @throws {UnavailableError} when PostgreSQL does not answer
 */
export async function openPostgresReader(settings: PostgresSettings, folder: string): Promise<Reader> {
  const postgres = await Postgres.open(settings);
  try {
    await migrateState(postgres);
    const copies = join(folder, "copies");
    await makeFolder(copies, "the daemon's folder");
    return {
      place: `the database ${postgres.place}`,
      journal: () => postgres.transaction(readJournal, { readOnly: true, snapshot: true }),
      audit: chainIn(postgres),
      access: new PostgresAccess(postgres),
      files: new PostgresFiles(postgres, copies),
      inboxes: new PostgresInboxes(postgres),
      [Symbol.asyncDispose]: () => postgres.close(),
    };
  } catch (error) {
    await postgres.close();
    throw error;
  }
}

/** Creates what is missing in the database. @throws as `migrate` does */
export function migrateState(postgres: Postgres): Promise<void> {
  return migrate(postgres, [
    nodesSchema,
    journalSchema,
    auditSchema,
    accessSchema,
    throttleSchema,
    filesSchema,
    inboxSchema,
  ]);
}

/** Without its ledger, a sync would not know what it owns; so nothing begins with an empty one by mistake. */
async function refuseOtherState(folder: string, { place }: Postgres): Promise<void> {
  if (!(await hasRuns(folder))) return;
  throw new InputError(
    `the data folder has the runs of a daemon with its state in the folder ${folder}, and the database ${place} has none: ` +
      `copy them with \`${command("state copy")}\`, or give this daemon another data folder`,
  );
}

/**
 * What the database of the state says of itself, a line each. It creates nothing.
 * @param lease as configured, in milliseconds
 * @throws as `migrate` does, where a daemon could not start on it
 */
export async function describeShared(settings: PostgresSettings, lease: number): Promise<readonly string[]> {
  const postgres = await Postgres.open(settings);
  try {
    await checkServer(postgres);
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
