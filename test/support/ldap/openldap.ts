import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Certificate, makeAuthority, makeCertificate } from "../certificates.ts";
import { debianPackages, missing, type Unpacked } from "./debian.ts";
import { ldifEntry } from "./ldif.ts";
import { connectionsTo, type Daemon, freePorts, runTool, spawnDaemon } from "../process.ts";

export interface OpenLdapOptions {
  /**
   * LDIF that `slapadd` loads before the server starts, fast and with operational attributes where it has them;
   * overlays do not see it. The base and the reader are there already.
   */
  readonly ldif?: string | AsyncIterable<string> | Iterable<string>;
  /** Of the base: `contextCSN`. */
  readonly baseAttributes?: Parameters<typeof ldifEntry>[1];
  readonly overlays?: readonly ("memberof" | "ppolicy" | "syncprov")[];
  /** Lines of slapd.conf(5) for the database: `sizelimit 10`, `limits dn.exact="…" size.pr=5`. */
  readonly database?: readonly string[];
  /** Definitions of attributes and object classes as slapd.conf(5) has them, after the usual ones. */
  readonly schema?: readonly string[];
  /** Lines of slapd.conf(5) for the server, before the database: `idletimeout 1`, `security tls=1`. */
  readonly global?: readonly string[];
  /** Who may read. Default: everybody who is logged in. */
  readonly access?: readonly string[];
  /** Another certificate than one for `localhost` and 127.0.0.1 signed by `authority`. */
  readonly certificate?: (authority: Certificate) => Promise<Certificate>;
  /** Whether a client needs a certificate. Default: it may have one. */
  readonly clients?: "never" | "try" | "demand";
}

/** A real slapd on free ports, with its data in a folder of its own. */
export interface OpenLdap extends AsyncDisposable {
  /** `ldap://127.0.0.1:PORT`, which also does StartTLS. */
  readonly url: string;
  /** `ldaps://localhost:PORT`. */
  readonly ldapsUrl: string;
  readonly port: number;
  /** The URL of its Unix socket, as libldap writes it. */
  readonly ldapiUrl: string;
  readonly folder: string;
  /** The PEM file of the authority that signed the server's certificate. */
  readonly caFile: string;
  /** Signs further certificates. A client certificate for `cn=NAME` logs in as NAME below the base. */
  readonly authority: Certificate;
  readonly packages: Unpacked;
  /** LDIF changes as the administrator (`ldapmodify -a`): what has no `changetype` is added. */
  modify(ldif: string): Promise<void>;
  /** LDIF changes to `cn=config`; the database is `olcDatabase={1}mdb,cn=config`. */
  configure(ldif: string): Promise<void>;
  /** Runs `ldapsearch` and its like, and gives what they print. */
  tool(program: string, args: readonly string[], input?: string): Promise<string>;
  /** How many connections to this server processes of this machine hold. */
  connections(): Promise<number>;
  /** SIGSTOP and SIGCONT: a server that accepts connections and does not answer. */
  pause(): void;
  resume(): void;
  /** SIGKILL; `start` starts it again on the same ports. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

export const base = "dc=example,dc=com";
/** The administrator. */
export const admin = { dn: `cn=admin,${base}`, password: "admin-is-secret" };
/** Logs in with a simple bind, with SASL PLAIN as `reader`, or with a client certificate for `cn=reader`. */
export const reader = { dn: `cn=reader,${base}`, password: "reader-is-secret" };

/** The server, and `ldapsearch`, `ldapmodify` and their like. */
export const ldapTools = (): Promise<Unpacked> =>
  debianPackages("slapd", "/usr/sbin/slapd", ["slapd", "ldap-utils", "libsasl2-modules"]);

/** Why OpenLDAP is unavailable here, as a reason to skip tests. With `CI=true` it throws instead. */
export const noOpenLdap = (): Promise<string | undefined> => missing(ldapTools());

/** @throws {Error} with slapd's output if it does not start */
export async function startOpenLdap(options: OpenLdapOptions = {}): Promise<OpenLdap> {
  const unpacked = await ldapTools();
  const folder = await mkdtemp(join(tmpdir(), "rollcall-slapd-"));
  const libraries = unpacked.path(
    process.arch === "arm64" ? "/usr/lib/aarch64-linux-gnu" : "/usr/lib/x86_64-linux-gnu",
  );
  const env = { ...unpacked.env, SASL_PATH: join(libraries, "sasl2"), LDAPCONF: join(folder, "ldap.conf") };
  const ldapiUrl = `ldapi://${encodeURIComponent(join(folder, "socket"))}`;
  const authority = await makeAuthority();
  let server: Daemon | undefined;
  let ports: readonly [number, number] | undefined;

  const tool = (
    program: string,
    args: readonly string[],
    input: string | AsyncIterable<string> = "",
  ): Promise<string> => runTool(unpacked.path(program), args, input, env);
  const modify = async (who: { dn: string; password: string }, ldif: string): Promise<void> => {
    await tool("/usr/bin/ldapmodify", ["-a", "-x", "-H", ldapiUrl, "-D", who.dn, "-w", who.password], ldif);
  };
  const inForeground = ["-d", "none"];
  const start = async (): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      const [ldap, ldaps] = ports ?? (await freePorts());
      const urls = [`ldap://127.0.0.1:${ldap}`, `ldaps://127.0.0.1:${ldaps}`, ldapiUrl].join(" ");
      const program = unpacked.path("/usr/sbin/slapd");
      server = spawnDaemon(program, [...inForeground, "-F", join(folder, "config"), "-h", urls], env);
      try {
        await server.ready(() => tool("/usr/bin/ldapsearch", ["-x", "-H", ldapiUrl, "-s", "base", "-b", "", "1.1"]));
        ports = [ldap, ldaps];
        return;
      } catch (error) {
        // If another process has taken a port meanwhile, slapd ends by itself.
        if (attempt === 5 || server.process.exitCode === null) throw error;
      }
    }
  };
  const kill = async (): Promise<void> => {
    await server?.kill();
    server = undefined;
  };
  const dispose = async (): Promise<void> => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  };

  try {
    await writeFiles(folder, authority, unpacked, options);
    const conf = ["-f", join(folder, "slapd.conf")];
    await tool("/usr/sbin/slapadd", [...conf, "-b", base, "-q"], ldifOf(options));
    // Converts to cn=config, which can be changed while the server runs.
    await tool("/usr/sbin/slaptest", [...conf, "-F", join(folder, "config")]);
    await start();
  } catch (error) {
    await dispose();
    throw error;
  }
  const [port = 0, tlsPort = 0] = ports ?? [];
  return {
    url: `ldap://127.0.0.1:${port}`,
    ldapsUrl: `ldaps://localhost:${tlsPort}`,
    port,
    ldapiUrl,
    folder,
    caFile: join(folder, "ca.pem"),
    authority,
    packages: { ...unpacked, env },
    modify: (ldif) => modify(admin, ldif),
    configure: (ldif) => modify({ dn: "cn=config", password: admin.password }, ldif),
    tool,
    connections: () => connectionsTo([port, tlsPort]),
    pause: () => server?.process.kill("SIGSTOP"),
    resume: () => server?.process.kill("SIGCONT"),
    kill,
    start,
    [Symbol.asyncDispose]: dispose,
  };
}

/** Writes what the server is started with: certificates, the schema and the configuration. */
async function writeFiles(
  folder: string,
  authority: Certificate,
  unpacked: Unpacked,
  options: OpenLdapOptions,
): Promise<void> {
  const certificate =
    (await options.certificate?.(authority)) ??
    (await makeCertificate({ dns: ["localhost"], ip: ["127.0.0.1"] }, { issuer: authority }));
  const caFile = join(folder, "ca.pem");
  await writeFile(caFile, authority.cert);
  await writeFile(join(folder, "cert.pem"), certificate.cert);
  await writeFile(join(folder, "key.pem"), certificate.key, { mode: 0o600 });
  await writeFile(join(folder, "ldap.conf"), `TLS_CACERT ${caFile}\nSASL_SECPROPS none\n`);
  await mkdir(join(folder, "data"));
  await mkdir(join(folder, "config"));
  await writeFile(join(folder, "own.schema"), `${(options.schema ?? []).join("\n")}\n`);
  await writeFile(join(folder, "slapd.conf"), slapdConf(folder, unpacked, options));
}

function slapdConf(folder: string, { path }: Unpacked, options: OpenLdapOptions): string {
  const schemas = ["core", "cosine", "nis", "inetorgperson"];
  return [
    ...schemas.map((name) => `include ${path(`/etc/ldap/schema/${name}.schema`)}`),
    `include ${join(folder, "own.schema")}`,
    `modulepath ${path("/usr/lib/ldap")}`,
    ...["back_mdb", ...(options.overlays ?? [])].map((name) => `moduleload ${name}`),
    `TLSCACertificateFile ${join(folder, "ca.pem")}`,
    `TLSCertificateFile ${join(folder, "cert.pem")}`,
    `TLSCertificateKeyFile ${join(folder, "key.pem")}`,
    `TLSVerifyClient ${options.clients ?? "try"}`,
    "sasl-secprops none",
    "localSSF 256",
    "sasl-auxprops slapd",
    `authz-regexp "^uid=([^,]+),cn=plain,cn=auth$" "cn=$1,${base}"`,
    `authz-regexp "^cn=([^,]+)$" "cn=$1,${base}"`,
    "sizelimit unlimited",
    ...(options.global ?? []),
    "database config",
    `rootpw ${admin.password}`,
    "database mdb",
    `suffix "${base}"`,
    `rootdn "${admin.dn}"`,
    `rootpw ${admin.password}`,
    `directory ${join(folder, "data")}`,
    `maxsize ${4 * 2 ** 30}`,
    "dbnosync",
    "index objectClass,uid,cn,entryUUID,entryCSN eq",
    "access to attrs=userPassword by anonymous auth by * none",
    ...(options.access ?? ["access to * by users read by anonymous auth"]),
    ...(options.database ?? []),
    ...(options.overlays ?? []).map((name) => `overlay ${name}`),
    "",
  ].join("\n");
}

async function* ldifOf({ ldif = "", baseAttributes = {} }: OpenLdapOptions): AsyncGenerator<string> {
  yield ldifEntry(base, { objectClass: "domain", dc: "example", ...baseAttributes });
  yield ldifEntry(reader.dn, { objectClass: "person", cn: "reader", sn: "reader", userPassword: reader.password });
  yield* typeof ldif === "string" ? [ldif] : ldif;
}
