import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { debianPackages } from "../support/ldap/debian.ts";
import { base, type OpenLdap, reader } from "../support/ldap/openldap.ts";
import type { LdaptsRequest } from "./ldapts.ts";
import { runApart } from "./measure.ts";

/** What others read of the same directory: the same entries and attributes, in pages of the same size, counted and dropped. */
export interface Peer {
  readonly name: string;
  /** @returns how many entries it has read */
  read(): Promise<number>;
}

const names = ["ldapts", "ldap3", "python-ldap"] as const;

/** Libraries that people read directories with: ldapts (JavaScript), ldap3 (Python) and python-ldap (Python over libldap). */
export const peerNames: readonly string[] = names;

/**
 * Those that can run here; the others are named on standard error. The ones in Python need `python3`; their packages come
 * from Debian, as `slapd` does: `apt-get install python3-ldap3 python3-ldap`.
 */
export async function peersOf(server: OpenLdap, wanted: readonly string[], pageSize: number): Promise<Peer[]> {
  const peers: Peer[] = [];
  for (const name of names.filter((each) => wanted.includes(each))) {
    const request: LdaptsRequest = { url: server.url, ...reader, base, pageSize };
    try {
      const read =
        name === "ldapts" ? () => runApart<number>("ldapts.ts", request) : await readerInPython(name, request);
      peers.push({ name, read });
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
