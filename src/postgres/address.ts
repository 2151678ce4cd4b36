import { isIP } from "node:net";
import { decoded } from "#text.ts";

/** How the connection is encrypted and whose certificate it accepts, as libpq calls it. */
export type SslMode = "disable" | "require" | "verify-ca" | "verify-full";

/** Where a server is. */
export interface Host {
  /** A name, an address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

/** Where a database is, and who opens it. */
export interface Address {
  /** One of them has the primary, the others its standbys. */
  readonly hosts: readonly [Host, ...Host[]];
  readonly database: string;
  readonly user: string;
  readonly password?: string | undefined;
  readonly sslmode: SslMode;
  readonly applicationName: string;
  /** `host:port/database`, or `host:port,host:port/database`: what messages call it. */
  readonly place: string;
}

const modes: readonly string[] = ["disable", "require", "verify-ca", "verify-full"] satisfies readonly SslMode[];

const form = "expected a URL like postgres://user:password@host:5432/database";

/** What is wrong with the URL of a database, without the URL: it holds a password. */
export function addressProblem(text: string): string | undefined {
  const { alone, others } = separated(text);
  const url = URL.parse(alone);
  if (url === null || (url.protocol !== "postgres:" && url.protocol !== "postgresql:"))
    return `${form}; encode @, :, /, # and % in the password as %40, %3A, %2F, %23 and %25`;
  const { user, database, password } = partsOf(url);
  if (user === undefined || database === undefined || password === undefined)
    return "the user, the password or the database has a % that encodes nothing: write %25 for a percent sign";
  if (user === "") return `${form}: the user is missing`;
  if (database === "" || database.includes("/")) return `${form}: the database is missing`;
  if (url.hostname === "" && url.searchParams.get("host") === null) return `${form}: the host is missing`;
  for (const other of others) {
    if (!(URL.parse(`postgres://${other}`)?.hostname ?? ""))
      return `the URL has ${JSON.stringify(other)} among its hosts; expected host:port,host:port`;
  }
  if (others.length > 0 && url.searchParams.has("host"))
    return "the URL has several hosts, and `host` as a parameter: write one or the other";
  for (const [name, value] of url.searchParams) {
    if (name === "sslmode") {
      if (modes.includes(value)) continue;
      if (value === "prefer" || value === "allow")
        return `sslmode=${value} would send everything unencrypted if the server does not encrypt: write verify-full, verify-ca, require or disable`;
      return "sslmode is verify-full, verify-ca, require or disable";
    }
    if (name === "sslrootcert") return "write `sslrootcert` as a key beside `postgres`, not in the URL";
    if (name !== "host" && name !== "application_name")
      return `the URL has the parameter ${JSON.stringify(name)}; it may have sslmode, host and application_name`;
  }
  return undefined;
}

/** @param text a URL that `addressProblem` has nothing against */
export function parseAddress(text: string): Address {
  const { alone, others } = separated(text);
  const url = new URL(alone);
  const { user = "", database = "", password = "" } = partsOf(url);
  const folder = url.searchParams.get("host");
  const first = hostOf(url);
  const hosts: Address["hosts"] = [
    { ...first, host: folder ?? first.host },
    ...others.map((other) => hostOf(new URL(`postgres://${other}`))),
  ];
  const given = url.searchParams.get("sslmode");
  return {
    hosts,
    database,
    user,
    password: password === "" ? undefined : password,
    sslmode:
      given === null ? (hosts.every(({ host }) => isLocal(host)) ? "disable" : "verify-full") : (given as SslMode),
    applicationName: url.searchParams.get("application_name") ?? "rollcall",
    place: `${hosts.map(({ host, port }) => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`).join(",")}/${database}`,
  };
}

/** The URL with its first host alone, since URLs have no more, and `host:port` of the others. */
function separated(text: string): { readonly alone: string; readonly others: readonly string[] } {
  const [whole = "", before = "", list = ""] = /^([a-z]+:\/\/(?:[^@/?#]*@)?)([^/?#]*)/i.exec(text) ?? [];
  const [first = "", ...others] = list.split(",");
  return { alone: `${before}${first}${text.slice(whole.length)}`, others };
}

function hostOf(url: URL): Host {
  return { host: url.hostname.replaceAll(/^\[|\]$/g, ""), port: url.port === "" ? 5432 : Number(url.port) };
}

function isLocal(host: string): boolean {
  return host.startsWith("/") || host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Undefined is what is not encoded as it should be. */
function partsOf(url: URL): Record<"user" | "password" | "database", string | undefined> {
  return {
    user: decoded(url.username),
    password: decoded(url.password),
    database: decoded(url.pathname.replace(/^\//, "")),
  };
}
