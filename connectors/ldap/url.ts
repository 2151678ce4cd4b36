import { z } from "zod";

/** Where a server listens. */
export interface LdapUrl {
  readonly scheme: "ldap" | "ldaps" | "ldapi";
  /** Without brackets; empty for ldapi. */
  readonly host: string;
  readonly port: number;
  /** The file of the socket, for ldapi. */
  readonly path?: string;
  /** As it was written, for messages. */
  readonly text: string;
}

const expected = "expected ldaps://HOST, ldap://HOST or ldapi://%2Fpath%2Fto%2Fsocket";

/** The address of a server: no more than scheme, host and port. */
export const ldapUrl = z.string({ error: expected }).transform((value, context) => {
  const url = URL.parse(value);
  const problem = (message: string): never => {
    context.addIssue({ code: "custom", message });
    return z.NEVER;
  };
  if (url === null || !/^ldap[si]?:\/\/[^/]/i.test(value)) return problem(expected);
  if (url.username !== "" || url.password !== "")
    return problem("expected a URL without a name and a password; they belong to bind");
  if (!["", "/"].includes(url.pathname) || url.search !== "" || url.hash !== "") {
    return problem("expected a URL of no more than a host and a port; where to look belongs to users.base");
  }
  return serverOf(url, value.replace(/\/$/, ""));
});

function serverOf(url: URL, text: string): LdapUrl {
  const scheme = url.protocol.slice(0, -1) as LdapUrl["scheme"];
  if (scheme === "ldapi") return { scheme, host: "", port: 0, path: decodeURIComponent(url.hostname), text };
  const port = url.port === "" ? (scheme === "ldaps" ? 636 : 389) : Number(url.port);
  return { scheme, host: url.hostname.replace(/^\[(.*)\]$/, "$1"), port, text };
}

/** Where a server says that something else is (RFC 4516). */
export interface Reference {
  readonly server: LdapUrl;
  /** Empty: the same. */
  readonly base: string;
  readonly scope?: "base" | "one" | "sub";
}

/** @returns undefined when it is no address of an LDAP server */
export function parseReference(text: string): Reference | undefined {
  const url = URL.parse(text);
  if (url === null || !/^ldaps?:\/\/[^/]/i.test(text)) return undefined;
  try {
    const base = decodeURIComponent(url.pathname.slice(1));
    const scope = url.search.slice(1).split("?")[1];
    const server = serverOf(url, `${url.protocol}//${url.host}`);
    return { server, base, ...(scope === "base" || scope === "one" || scope === "sub" ? { scope } : {}) };
  } catch {
    return undefined;
  }
}
