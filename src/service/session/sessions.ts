import { hash, randomBytes } from "node:crypto";
import type { Logger } from "pino";
import { createQueue, createShared } from "#queue.ts";
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
 * The open sessions of both families (0.4, 0.5): a table, and a copy of it in memory so that a request costs no query; where
 * other processes write too, one now and then. The table holds digests of tokens, which are useless to a reader.
 */
export class Sessions {
  readonly #options: SessionOptions;
  readonly #records: Records;
  readonly #table: string;
  /** By the digests of their tokens. */
  readonly #sessions = new Map<string, Session>();
  /** Sessions whose last use is not written yet. */
  readonly #used = new Set<string>();
  /** Sessions that have ended but are still in the table, for example because the disk is full. */
  readonly #ended = new Set<string>();
  readonly #interval: number;
  /** What another process has seen last may not be written yet: no session ends early for that. In milliseconds. */
  readonly #grace: number;
  /** The database refuses to change a row in two transactions at once. */
  readonly #writing = createQueue();
  /** Many that end at the same time wait for the disk once. */
  readonly #removing = createShared(() => this.#writing(() => this.#removeEnded()));
  #timer: NodeJS.Timeout | undefined;

  /** Opens the session store. */
  static async open(options: SessionOptions): Promise<Sessions> {
    const sessions = new Sessions(options);
    await sessions.#start();
    return sessions;
  }

  private constructor(options: SessionOptions) {
    const { records, idle } = options;
    this.#options = options;
    this.#records = records;
    this.#table = records.table("sessions");
    this.#interval = records.areShared
      ? Math.max(shortestInterval, Math.min(writeInterval, Math.round(idle / 10)))
      : Math.min(writeInterval, idle);
    this.#grace = records.areShared ? 2 * this.#interval : 0;
  }

  async #start(): Promise<void> {
    for (const row of await this.#records.rows<Row>(`SELECT * FROM ${this.#table}`)) this.#know(row);
    await this.#writing(() => this.#writeDown());
    this.#timer = setInterval(() => {
      this.#writing(() => this.#writeDown()).catch((error: unknown) => {
        this.#warn(error);
      });
    }, this.#interval);
    this.#timer.unref();
  }

  /** Opens a session that survives a restart and returns its token, the value of the cookie. */
  async open(user: SessionUser, { remembered }: { readonly remembered: boolean }): Promise<string> {
    await this.#makeRoom(user.id);
    const { token, digest } = createToken();
    const now = BigInt(this.#records.now());
    const row = { digest, user_id: user.id, user_name: user.name, remembered, opened: now, last_used: now };
    await this.#records.run(`INSERT INTO ${this.#table} VALUES ($1, $2, $3, $4, $5, $6)`, Object.values(row));
    this.#know(row);
    return token;
  }

  /** Opens a session for commands on this machine. It ends with the process, and no logout ends it. */
  openLocal({ id, name }: SessionUser): string {
    const { token, digest } = createToken();
    const now = this.#records.now();
    this.#sessions.set(digest, { user: { id, name }, kind: "local", opened: now, lastUsed: now, read: 0 });
    return token;
  }

  /** Whether it was opened with `openLocal`. */
  isLocal(token: string): boolean {
    return this.#sessions.get(digestOf(token))?.kind === "local";
  }

  /**
   * The user of the session with this token; undefined when it has ended or never existed.
   * @param isUse whether this counts as a use, from which the idle time begins anew; default: true
   */
  async find(token: string, isUse = true): Promise<SessionUser | undefined> {
    const digest = digestOf(token);
    const session = await this.#current(digest);
    const now = this.#records.now();
    if (session === undefined || this.#hasEnded(session, now)) return undefined;
    if (!isUse) return session.user;
    session.lastUsed = now;
    if (session.kind !== "local") this.#used.add(digest);
    return session.user;
  }

  async end(token: string): Promise<void> {
    const digest = digestOf(token);
    if (this.#sessions.get(digest)?.kind === "local") return;
    this.#sessions.delete(digest);
    this.#ended.add(digest);
    await this.#removing();
  }

  /** The number of open sessions that this process knows: all of them, unless several share the records. */
  count(): number {
    const now = this.#records.now();
    return [...this.#sessions.values()].filter((session) => !this.#hasEnded(session, now)).length;
  }

  /** Writes the last uses of sessions. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    try {
      await this.#writing(() => this.#writeDown());
    } catch (error) {
      this.#warn(error);
    }
  }

  #know(row: Row): Session {
    const { user_id: id, user_name: name } = row;
    const known = this.#sessions.get(row.digest);
    const session: Session = {
      user: { id, name },
      kind: row.remembered ? "remembered" : "usual",
      opened: Number(row.opened),
      lastUsed: Math.max(Number(row.last_used), known?.lastUsed ?? 0),
      read: performance.now(),
    };
    this.#sessions.set(row.digest, session);
    return session;
  }

  #hasEnded({ kind, opened, lastUsed }: Session, now: number): boolean {
    if (kind === "local") return false;
    const { remembered, idle } = this.#options;
    return now >= (kind === "remembered" ? opened + remembered : lastUsed + idle + this.#grace);
  }

  async #removeEnded(): Promise<void> {
    if (this.#ended.size === 0) return;
    const going = [...this.#ended];
    await this.#records.run(`DELETE FROM ${this.#table} WHERE digest IN (SELECT unnest($1::VARCHAR[]))`, [going]);
    for (const digest of going) this.#ended.delete(digest);
  }

  async #writeDown(): Promise<void> {
    const table = this.#table;
    const digests = [...this.#used].filter((digest) => this.#sessions.has(digest));
    if (digests.length > 0) {
      const times = digests.map((digest) => BigInt(this.#sessions.get(digest)?.lastUsed ?? 0));
      await this.#records.run(
        `UPDATE ${table} SET last_used = u.last_used
         FROM (SELECT unnest($1::VARCHAR[]) AS digest, unnest($2::BIGINT[]) AS last_used) u
         WHERE ${table}.digest = u.digest AND ${table}.last_used < u.last_used`,
        [digests, times],
      );
      for (const digest of digests) this.#used.delete(digest);
    }
    const now = this.#records.now();
    const { remembered, idle } = this.#options;
    await this.#records.run(
      `DELETE FROM ${table} WHERE CASE WHEN remembered THEN opened + $1 ELSE last_used + $2 END <= $3`,
      [BigInt(remembered), BigInt(idle + this.#grace), BigInt(now)],
    );
    for (const [digest, session] of this.#sessions) {
      if (!this.#hasEnded(session, now)) continue;
      this.#sessions.delete(digest);
      this.#used.delete(digest);
    }
    await this.#removeEnded();
  }

  /** The session of a digest, as of half a second ago at the longest. */
  async #current(digest: string): Promise<Session | undefined> {
    const known = this.#sessions.get(digest);
    if (!this.#records.areShared || known?.kind === "local") return known;
    if (known !== undefined && performance.now() - known.read < currentFor) return known;
    const [row] = await this.#records.rows<Row>(`SELECT * FROM ${this.#table} WHERE digest = $1`, [digest]);
    if (row !== undefined && !this.#ended.has(digest)) return this.#know(row);
    this.#sessions.delete(digest);
    return undefined;
  }

  /** A script that logs in and never out ends sessions of its own user, and nobody else's. */
  async #makeRoom(user: string): Promise<void> {
    const own = [...this.#sessions].filter(([, session]) => session.user.id === user && session.kind !== "local");
    if (own.length < mostOfUser) return;
    own.sort(([, a], [, b]) => a.lastUsed - b.lastUsed);
    for (const [digest] of own.slice(0, own.length + 1 - mostOfUser)) {
      this.#sessions.delete(digest);
      this.#used.delete(digest);
      this.#ended.add(digest);
    }
    await this.#removing();
  }

  #warn(error: unknown): void {
    this.#options.log.warn({ err: error }, `the use of sessions could not be written down: ${messageOf(error)}`);
  }
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
  return hash("sha256", token, "base64url");
}
