import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build } from "vite";
import { debianPackages } from "../support/ldap/debian.ts";
import { base, type OpenLdap, reader } from "../support/ldap/openldap.ts";
import type { BitwardenRequest } from "./ldap-bitwarden.ts";
import type { LdaptsRequest } from "./ldapts.ts";
import { runApart } from "./measure.ts";

/** Somebody else who reads the same directory. A library counts the same entries and attributes in pages of the same size. */
export interface Peer {
  readonly name: string;
  /** As in "ldapts counts the entries". */
  readonly does: string;
  /** @returns how many entries it has read */
  read(): Promise<number>;
}

const names = ["ldapts", "ldap3", "python-ldap"] as const;

/** Libraries that people read directories with: ldapts (JavaScript), ldap3 (Python) and python-ldap (Python over libldap). */
export const peerNames: readonly string[] = names;

/**
 * Those that can run here; the others are named on standard error. The ones in Python need `python3`; their packages come
 * from Debian, as `slapd` does: `apt-get install python3-ldap3 python3-ldap`.
 *
 * @param checkout of Bitwarden's Directory Connector, if it is to read, too
 */
export async function peersOf(
  server: OpenLdap,
  wanted: readonly string[],
  pageSize: number,
  checkout: string | undefined,
): Promise<Peer[]> {
  const peers: Peer[] = [];
  if (checkout !== undefined) peers.push(await bitwarden(server, checkout));
  for (const name of names.filter((each) => wanted.includes(each))) {
    const request: LdaptsRequest = { url: server.url, ...reader, base, pageSize };
    try {
      const read =
        name === "ldapts" ? () => runApart<number>("ldapts.ts", request) : await readerInPython(name, request);
      peers.push({ name, does: "counts the entries", read });
    } catch (error) {
      console.error(`${name} is left out: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}`);
    }
  }
  return peers;
}

async function readerInPython(name: string, request: LdaptsRequest): Promise<Peer["read"]> {
  const modules = "/usr/lib/python3/dist-packages";
  const packages = ["python3-ldap3", "python3-ldap"];
  const unpacked = await debianPackages("python-ldap", `${modules}/ldap3/__init__.py`, packages);
  const env = { ...unpacked.env, PYTHONPATH: unpacked.path(modules) };
  const run = promisify(execFile);
  // The one over libldap is compiled for Debian's own Python.
  await run("python3", ["-c", `import ${name === "ldap3" ? "ldap3" : "ldap"}`], { env });
  const script = fileURLToPath(new URL("python-ldap.py", import.meta.url));
  const { url, dn, password, pageSize } = request;
  return async () =>
    Number((await run("python3", [script, name, url, dn, password, base, String(pageSize)], { env })).stdout);
}

/**
 * The service that reads LDAP in Bitwarden's Directory Connector, bundled with the ldapts that is installed here. It reads
 * users and groups with all their attributes, then users once more for the members of groups, in ldapts' pages of 100.
 *
 * @param checkout a clone of https://github.com/bitwarden/directory-connector; nothing has to be installed in it
 * @throws {Error} where it has no such service
 */
async function bitwarden(server: OpenLdap, checkout: string): Promise<Peer> {
  const root = resolve(checkout);
  const service = "libs/services/directory-services/ldap-directory.service";
  if (!existsSync(join(root, `${service}.ts`))) throw new Error(`${root} has no ${service}.ts`);
  const outDir = join(server.folder, "bitwarden");
  await build({
    root,
    configFile: false,
    logLevel: "error",
    resolve: { alias: { "@": root, ldapts: fileURLToPath(import.meta.resolve("ldapts")) } },
    ssr: { noExternal: true },
    build: { ssr: `${service}.ts`, outDir },
  });
  const module = pathToFileURL(join(outDir, "ldap-directory.service.js")).href;
  const request: BitwardenRequest = { module, url: server.url, ...reader, base };
  const read = (): Promise<number> => runApart<number>("ldap-bitwarden.ts", request);
  return { name: "Bitwarden Directory Connector", does: "makes users and groups", read };
}
