import { createHash, randomBytes } from "node:crypto";
import type { Logger } from "pino";
import { createQueue } from "#queue.ts";
import { listValue } from "@duckdb/node-api";
import { messageOf } from "#errors.ts";
import type { Database } from "#duckdb/database.ts";

export interface SessionOptions {
  readonly database: Database;
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
  find(token: string, isUse?: boolean): SessionUser | undefined;
  end(token: string): Promise<void>;
  /** The number of open sessions. */
  count(): number;
  /** Writes the last uses of sessions. */
  close(): Promise<void>;
}

interface Session {
  readonly user: SessionUser;
  readonly kind: "usual" | "remembered" | "local";
  readonly opened: number;
  lastUsed: number;
}

/** The last uses of sessions are written at most this often, in milliseconds. */
const writeInterval = 60_000;

/**
 * Opens the session store: a table in the service's database, and a copy of it in memory so that a request costs no
 * query. The table holds digests of tokens, which are useless to a reader.
 */
export async function openSessions({ database, idle, remembered, log }: SessionOptions): Promise<Sessions> {
  const connection = await database.connect();
  await connection.run(`
    CREATE TABLE IF NOT EXISTS sessions (
      digest VARCHAR NOT NULL,
      user_id VARCHAR NOT NULL,
      user_name VARCHAR NOT NULL,
      remembered BOOLEAN NOT NULL,
      opened BIGINT NOT NULL,
      last_used BIGINT NOT NULL
    )`);
  const sessions = new Map<string, Session>();
  for (const row of await connection.rows<Row>("SELECT * FROM sessions")) {
    sessions.set(row.digest, {
      user: { id: row.user_id, name: row.user_name },
      kind: row.remembered ? "remembered" : "usual",
      opened: Number(row.opened),
      lastUsed: Number(row.last_used),
    });
  }
  const used = new Set<string>();

  function hasEnded(session: Session, now: number): boolean {
    if (session.kind === "local") return false;
    return now >= (session.kind === "remembered" ? session.opened + remembered : session.lastUsed + idle);
  }

  /** Sessions that have ended but are still in the table, for example because the disk is full. */
  const ended = new Set<string>();

  async function forget(digests: readonly string[]): Promise<void> {
    for (const digest of digests) {
      sessions.delete(digest);
      ended.add(digest);
    }
    if (ended.size === 0) return;
    const going = [...ended];
    await connection.run("DELETE FROM sessions WHERE digest IN (SELECT unnest(?))", [listValue(going)]);
    for (const digest of going) ended.delete(digest);
  }

  async function writeDown(): Promise<void> {
    const now = Date.now();
    await forget([...sessions].filter(([, session]) => hasEnded(session, now)).map(([digest]) => digest));
    const digests = [...used].filter((digest) => sessions.has(digest));
    if (digests.length === 0) return;
    const times = digests.map((digest) => BigInt(sessions.get(digest)?.lastUsed ?? 0));
    await connection.run(
      `UPDATE sessions SET last_used = u.last_used
       FROM (SELECT unnest(?) AS digest, unnest(?) AS last_used) u WHERE sessions.digest = u.digest`,
      [listValue(digests), listValue(times)],
    );
    for (const digest of digests) used.delete(digest);
  }

  await writeDown();
  const writing = createQueue();
  const timer = setInterval(
    () => {
      writing(writeDown).catch((error: unknown) => {
        log.warn({ err: error }, `the use of sessions could not be written down: ${messageOf(error)}`);
      });
    },
    Math.min(writeInterval, idle),
  );
  timer.unref();

  return {
    open: async (user, options) => {
      const { token, digest } = createToken();
      const now = Date.now();
      await connection.run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", [
        digest,
        user.id,
        user.name,
        options.remembered,
        BigInt(now),
        BigInt(now),
      ]);
      const kind = options.remembered ? "remembered" : "usual";
      sessions.set(digest, { user: { id: user.id, name: user.name }, kind, opened: now, lastUsed: now });
      return token;
    },
    openLocal: (user) => {
      const { token, digest } = createToken();
      const now = Date.now();
      sessions.set(digest, { user: { id: user.id, name: user.name }, kind: "local", opened: now, lastUsed: now });
      return token;
    },
    isLocal: (token) => sessions.get(digestOf(token))?.kind === "local",
    find: (token, isUse = true) => {
      const digest = digestOf(token);
      const session = sessions.get(digest);
      const now = Date.now();
      if (session === undefined || hasEnded(session, now)) return undefined;
      if (!isUse) return session.user;
      session.lastUsed = now;
      if (session.kind !== "local") used.add(digest);
      return session.user;
    },
    end: async (token) => {
      const digest = digestOf(token);
      if (sessions.get(digest)?.kind !== "local") await forget([digest]);
    },
    count: () => {
      const now = Date.now();
      return [...sessions.values()].filter((session) => !hasEnded(session, now)).length;
    },
    close: async () => {
      clearInterval(timer);
      try {
        await writing.idle();
        await writeDown();
      } catch (error) {
        log.warn({ err: error }, `the use of sessions could not be written down: ${messageOf(error)}`);
      } finally {
        connection.close();
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
