import { randomInt } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { debianPackages, missing, type Unpacked } from "./debian.ts";
import { ldapTools } from "./openldap.ts";
import { type Daemon, runTool, spawnDaemon } from "../process.ts";

/** A Samba domain controller on a loopback address of its own. */
export interface SambaDomain extends AsyncDisposable {
  /** `ldap://127.X.Y.Z`, which asks for no encryption. */
  readonly url: string;
  /** LDIF changes as the administrator; what has no `changetype` is added. */
  modify(ldif: string): Promise<void>;
}

export const sambaBase = "DC=example,DC=com";
export const sambaAdministrator = { upn: "administrator@example.com", password: "Admin-is-secret1" };

const packages = (): Promise<Unpacked> =>
  debianPackages("samba", "/usr/sbin/samba", ["samba-ad-dc", "samba-ad-provision"]);

/** Why Samba is unavailable here; see `noOpenLdap`. It needs root for port 389 and for a mount namespace. */
export async function noSamba(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "a domain of Samba needs root";
  const allowed = await runTool("unshare", ["--mount", "true"], "", process.env).catch((error: unknown) => error);
  if (allowed instanceof Error) return `a domain of Samba needs a mount namespace: ${allowed.message}`;
  return missing(packages());
}

/** Provisions a new domain, which takes 10 to 30 seconds, and starts it. */
export async function startSamba(): Promise<SambaDomain> {
  const unpacked = await packages();
  const folder = await mkdtemp(join(tmpdir(), "rollcall-samba-"));
  const address = `127.${[1, 2, 3].map(() => randomInt(1, 255)).join(".")}`;
  const url = `ldap://${address}`;
  const tools = await ldapTools();
  let server: Daemon | undefined;
  const dispose = async (): Promise<void> => {
    await server?.kill();
    await rm(folder, { recursive: true, force: true });
  };
  const login = ["-x", "-H", url, "-D", sambaAdministrator.upn, "-w", sambaAdministrator.password];
  const tool = (program: string, args: readonly string[], input = ""): Promise<string> =>
    runTool(tools.path(program), [...login, ...args], input, tools.env);
  try {
    const run = join(folder, "run");
    await mkdir(run);
    const options = [
      `interfaces=${address}/8`,
      "bind interfaces only=yes",
      ...["pid directory", "lock directory"].map((name) => `${name}=${run}`),
      ...["ncalrpc dir", "winbindd socket directory", "ntp signd socket directory"].map(
        (name) => `${name}=${join(run, name.replaceAll(" ", "-"))}`,
      ),
    ];
    const provision = ["/usr/bin/samba-tool", "domain", "provision", `--targetdir=${folder}`]
      .concat(["--realm=EXAMPLE.COM", "--domain=EXAMPLE", "--host-name=dc1", `--host-ip=${address}`])
      .concat([`--adminpass=${sambaAdministrator.password}`, "--server-role=dc", "--dns-backend=NONE"])
      .concat(options.map((option) => `--option=${option}`));
    await runTool("unshare", asInstalled(unpacked, ["/usr/bin/python3", ...provision]), "", process.env);
    const file = join(folder, "etc", "smb.conf");
    const ldapOnly = ["server services = ldap", "ldap server require strong auth = no", "tls enabled = no"];
    await writeFile(file, (await readFile(file, "utf8")).replace(/^\s*server services = .*$/m, ldapOnly.join("\n")));
    const inForeground = ["--foreground", "--no-process-group", "--model=single", "--debug-stdout"];
    const command = ["/usr/sbin/samba", ...inForeground, `--configfile=${file}`];
    server = spawnDaemon("unshare", asInstalled(unpacked, command), process.env);
    await server.ready(() => tool("/usr/bin/ldapsearch", ["-s", "base", "-b", sambaBase, "1.1"]));
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    url,
    async modify(ldif) {
      await tool("/usr/bin/ldapmodify", ["-a"], ldif);
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** Arguments of `unshare`: the program sees what was unpacked below `/usr`, in a view of the file system of its own. */
function asInstalled({ path }: Unpacked, command: readonly string[]): string[] {
  if (path("/usr") === "/usr") return ["--mount", ...command];
  const mount = 'mount -t overlay overlay -o lowerdir="$0":/usr /usr && exec "$@"';
  return ["--mount", "sh", "-c", mount, path("/usr"), ...command];
}
