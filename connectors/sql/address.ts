import { isIP } from "node:net";
import { decoded } from "#text.ts";

/** How a connection is encrypted and whose certificate it accepts, as libpq calls it. */
const modes = ["verify-full", "verify-ca", "require", "disable"] as const;
export type SslMode = (typeof modes)[number];

/** A server of a database, and who asks it. */
export interface ServerAddress {
  readonly dialect: "postgres" | "mysql";
  /** A name, an address, or the path of a Unix socket (PostgreSQL: of its folder). */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password?: string | undefined;
  readonly sslmode: SslMode;
  /** `host:port/database`: what messages call it. */
  readonly place: string;
}

/** A file of SQLite. */
export interface FileAddress {
  readonly dialect: "sqlite";
  /** Relative to the configuration's folder. */
  readonly file: string;
  readonly place: string;
}

export type Address = ServerAddress | FileAddress;

const expected = "expected postgres://user@host:5432/database, mysql://user@host:3306/database or sqlite:file.db";
const ports = { postgres: 5432, mysql: 3306 };
const dialects: Readonly<Record<string, "postgres" | "mysql">> = {
  "postgres:": "postgres",
  "postgresql:": "postgres",
  "mysql:": "mysql",
  "mariadb:": "mysql",
};

/** @returns what is wrong with the URL, without it: it may hold a password */
export function addressOf(text: string): Address | string {
  const [, file] = /^sqlite:(?:\/\/(?=\/))?(.+)$/s.exec(text) ?? [];
  if (file !== undefined) {
    if (/^\/\/|[?#]|^:memory:$/.test(file)) return "expected sqlite:file.db or sqlite:/path/to/file.db";
    return { dialect: "sqlite", file, place: file };
  }
  const url = URL.parse(text);
  const dialect = dialects[url?.protocol ?? ""];
  if (url === null || dialect === undefined)
    return `${expected}; encode @, :, /, # and % in a password as %40, %3A, %2F, %23 and %25, or give it the key password`;
  const [user, password, database] = [url.username, url.password, url.pathname.slice(1)].map(decoded);
  if (user === undefined || password === undefined || database === undefined)
    return "the user, the password or the database has a % that encodes nothing: write %25 for a percent sign";
  if (user === "") return `${expected}: the user is missing`;
  if (database === "" || database.includes("/")) return `${expected}: the database is missing`;
  const host = url.searchParams.get("host") ?? url.hostname.replaceAll(/^\[|\]$/g, "");
  if (host === "") return `${expected}: the host is missing`;
  for (const name of url.searchParams.keys()) {
    if (name !== "sslmode" && name !== "host")
      return `the URL has the parameter ${JSON.stringify(name)}; it may have sslmode and host (the path of a Unix socket)`;
  }
  const given = url.searchParams.get("sslmode");
  const sslmode = modes.find((mode) => mode === given);
  if (given !== null && sslmode === undefined)
    return `sslmode is ${modes.slice(0, -1).join(", ")} or ${modes.at(-1)}; the others may send everything unencrypted`;
  const mode = sslmode ?? (isLocal(host) ? "disable" : "verify-full");
  if (dialect === "mysql" && mode === "verify-full" && isIP(host) !== 0)
    return "with MySQL, verify-full needs the name of the host: the driver cannot check a certificate for an address; write the name, or sslmode=verify-ca";
  const port = url.port === "" ? ports[dialect] : Number(url.port);
  return {
    dialect,
    host,
    port,
    database,
    user,
    password: password === "" ? undefined : password,
    sslmode: mode,
    place: isSocket(host) ? `${host}/${database}` : `${isIP(host) === 6 ? `[${host}]` : host}:${port}/${database}`,
  };
}

export function isSocket(host: string): boolean {
  return host.startsWith("/");
}

/** Whether nobody is in between. */
export function isLocal(host: string): boolean {
  return isSocket(host) || host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
