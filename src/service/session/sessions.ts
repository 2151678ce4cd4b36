import { createHash, randomBytes } from "node:crypto";
import type { Logger } from "pino";
import { createQueue } from "#queue.ts";
import { messageOf } from "#errors.ts";
import type { Records } from "#service/records.ts";

export interface SessionOptions {
  readonly records: Records;
  /** A session ends after this long without use, in milliseconds. */
  readonly idle: number;
  /** A remembered session ends this long after the login, in milliseconds. */
  readonly remembered: number;
  readonly log: Logger;
}

/** The user of a session. */
export interface SessionUser {
  /** Never reused, not even for the same name. */
  readonly id: string;
  readonly name: string;
}

/** The open sessions of both families (0.4, 0.5). */
export interface Sessions {
  /** Opens a session that survives a restart and returns its token, the value of the cookie. */
  open(user: SessionUser, options: { remembered: boolean }): Promise<string>;
  /** Opens a session for commands on this machine. It ends with the process, and no logout ends it. */
  openLocal(user: SessionUser): string;
  /** Whether it was opened with `openLocal`. */
  isLocal(token: string): boolean;
  /**
   * The user of the session with this token; undefined when it has ended or never existed.
   * @param isUse whether this counts as a use, from which the idle time begins anew; default: true
   */
  find(token: string, isUse?: boolean): Promise<SessionUser | undefined>;
  end(token: string): Promise<void>;
  /** The number of open sessions that this process knows: all of them, unless several share the records. */
  count(): number;
  /** Writes the last uses of sessions. */
  close(): Promise<void>;
}

interface Session {
  readonly user: SessionUser;
  readonly kind: "usual" | "remembered" | "local";
  readonly opened: number;
  lastUsed: number;
  /** When its record was read last, on this process's clock. */
  readonly read: number;
}

/** The most sessions of a user at a time. Of more, those end that have not been used for the longest. */
const mostOfUser = 1_000;

/** The last uses of sessions are written at most this often, in milliseconds. */
const writeInterval = 60_000;

/** Where other processes have to know them, at least ten times in the time that ends a session, and at most this often. */
const shortestInterval = 100;

/** How long a record that other processes write too is taken for current, in milliseconds. */
const currentFor = 500;

/**
 * Opens the session store: a table, and a copy of it in memory so that a request costs no query; where other processes
 * write too, one now and then. The table holds digests of tokens, which are useless to a reader.
 */
export async function openSessions({ records, idle, remembered, log }: SessionOptions): Promise<Sessions> {
  const table = records.table("sessions");
  await records.create(`
    CREATE TABLE IF NOT EXISTS sessions (
      digest VARCHAR NOT NULL,
      user_id VARCHAR NOT NULL,
      user_name VARCHAR NOT NULL,
      remembered BOOLEAN NOT NULL,
      opened BIGINT NOT NULL,
      last_used BIGINT NOT NULL
    )`);
  const sessions = new Map<string, Session>();
  const know = (row: Row): Session => {
    const { user_id: id, user_name: name } = row;
    const known = sessions.get(row.digest);
    const session: Session = {
      user: { id, name },
      kind: row.remembered ? "remembered" : "usual",
      opened: Number(row.opened),
      lastUsed: Math.max(Number(row.last_used), known?.lastUsed ?? 0),
      read: performance.now(),
    };
    sessions.set(row.digest, session);
    return session;
  };
  for (const row of await records.rows<Row>(`SELECT * FROM ${table}`)) know(row);
  const used = new Set<string>();
  const interval = records.areShared
    ? Math.max(shortestInterval, Math.min(writeInterval, Math.round(idle / 10)))
    : Math.min(writeInterval, idle);
  // What another process has seen last may not be written yet: no session ends early for that.
  const grace = records.areShared ? 2 * interval : 0;

  function hasEnded(session: Session, now: number): boolean {
    if (session.kind === "local") return false;
    return now >= (session.kind === "remembered" ? session.opened + remembered : session.lastUsed + idle + grace);
  }

  /** Sessions that have ended but are still in the table, for example because the disk is full. */
  const ended = new Set<string>();

  async function remove(): Promise<void> {
    if (ended.size === 0) return;
    const going = [...ended];
    await records.run(`DELETE FROM ${table} WHERE digest IN (SELECT unnest($1::VARCHAR[]))`, [going]);
    for (const digest of going) ended.delete(digest);
  }

  async function writeDown(): Promise<void> {
    const digests = [...used].filter((digest) => sessions.has(digest));
    if (digests.length > 0) {
      const times = digests.map((digest) => BigInt(sessions.get(digest)?.lastUsed ?? 0));
      await records.run(
        `UPDATE ${table} SET last_used = u.last_used
         FROM (SELECT unnest($1::VARCHAR[]) AS digest, unnest($2::BIGINT[]) AS last_used) u
         WHERE ${table}.digest = u.digest AND ${table}.last_used < u.last_used`,
        [digests, times],
      );
      for (const digest of digests) used.delete(digest);
    }
    const now = records.now();
    await records.run(
      `DELETE FROM ${table} WHERE CASE WHEN remembered THEN opened + $1 ELSE last_used + $2 END <= $3`,
      [BigInt(remembered), BigInt(idle + grace), BigInt(now)],
    );
    for (const [digest, session] of sessions) {
      if (!hasEnded(session, now)) continue;
      sessions.delete(digest);
      used.delete(digest);
    }
    await remove();
  }

  /** The session of a digest, as of half a second ago at the longest. */
  async function current(digest: string): Promise<Session | undefined> {
    const known = sessions.get(digest);
    if (!records.areShared || known?.kind === "local") return known;
    if (known !== undefined && performance.now() - known.read < currentFor) return known;
    const [row] = await records.rows<Row>(`SELECT * FROM ${table} WHERE digest = $1`, [digest]);
    if (row !== undefined && !ended.has(digest)) return know(row);
    sessions.delete(digest);
    return undefined;
  }

  /** A script that logs in and never out ends sessions of its own user, and nobody else's. */
  async function makeRoom(user: string): Promise<void> {
    const own = [...sessions].filter(
      ([
        ,
        {
          user: { id },
          kind,
        },
      ]) => id === user && kind !== "local",
    );
    if (own.length < mostOfUser) return;
    own.sort(([, a], [, b]) => a.lastUsed - b.lastUsed);
    for (const [digest] of own.slice(0, own.length + 1 - mostOfUser)) {
      sessions.delete(digest);
      used.delete(digest);
      ended.add(digest);
    }
    await remove();
  }

  await writeDown();
  const writing = createQueue();
  const timer = setInterval(() => {
    writing(writeDown).catch((error: unknown) => {
      log.warn({ err: error }, `the use of sessions could not be written down: ${messageOf(error)}`);
    });
  }, interval);
  timer.unref();

  return {
    open: async (user, options) => {
      await makeRoom(user.id);
      const { token, digest } = createToken();
      const now = BigInt(records.now());
      const row = {
        digest,
        user_id: user.id,
        user_name: user.name,
        remembered: options.remembered,
        opened: now,
        last_used: now,
      };
      await records.run(`INSERT INTO ${table} VALUES ($1, $2, $3, $4, $5, $6)`, Object.values(row));
      know(row);
      return token;
    },
    openLocal: ({ id, name }) => {
      const { token, digest } = createToken();
      const now = records.now();
      sessions.set(digest, { user: { id, name }, kind: "local", opened: now, lastUsed: now, read: 0 });
      return token;
    },
    isLocal: (token) => sessions.get(digestOf(token))?.kind === "local",
    find: async (token, isUse = true) => {
      const digest = digestOf(token);
      const session = await current(digest);
      const now = records.now();
      if (session === undefined || hasEnded(session, now)) return undefined;
      if (!isUse) return session.user;
      session.lastUsed = now;
      if (session.kind !== "local") used.add(digest);
      return session.user;
    },
    end: async (token) => {
      const digest = digestOf(token);
      if (sessions.get(digest)?.kind === "local") return;
      sessions.delete(digest);
      ended.add(digest);
      await remove();
    },
    count: () => {
      const now = records.now();
      return [...sessions.values()].filter((session) => !hasEnded(session, now)).length;
    },
    close: async () => {
      clearInterval(timer);
      try {
        await writing.idle();
        await writeDown();
      } catch (error) {
        log.warn({ err: error }, `the use of sessions could not be written down: ${messageOf(error)}`);
      }
    },
  };
}

interface Row {
  readonly digest: string;
  readonly user_id: string;
  readonly user_name: string;
  readonly remembered: boolean;
  readonly opened: bigint;
  readonly last_used: bigint;
}

/** 256 random bits; base64url has no `=` (0.4). Lookup is by digest, so tokens are never compared byte by byte. */
function createToken(): { token: string; digest: string } {
  const token = randomBytes(32).toString("base64url");
  return { token, digest: digestOf(token) };
}

function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
