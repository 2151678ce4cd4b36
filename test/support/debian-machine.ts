import { spawn } from "node:child_process";
import { access, mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { debianPackages } from "./ldap/debian.ts";
import { runTool } from "./process.ts";
import { watchOutput } from "./rollcall/rollcall.ts";
import type { Ended, Running } from "./rollcall/rollcall.ts";

const cache = fileURLToPath(new URL("../../node_modules/.cache/rollcall/debian/", import.meta.url));

/** What a server with Debian has beside the essential packages, and what checks packages and units. */
const packages = ["systemd", "procps", "libatomic1", "libstdc++6", "lintian"];

/**
 * The files of a minimal Debian 12, made once below `node_modules/.cache`. Nothing may be written there.
 * @throws {Error} without root, or where Debian's packages cannot be had
 */
export async function debianFiles(): Promise<string> {
  if (process.getuid?.() !== 0) throw new Error("only root can make a machine with Debian");
  const files = join(cache, "machine");
  if (await exists(files)) return files;
  const mmdebstrap = await debianPackages("mmdebstrap", "/usr/bin/mmdebstrap", ["mmdebstrap"]);
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, "work-"));
  try {
    const made = join(work, "machine");
    const args = ["--quiet", "--variant=minbase", `--include=${packages.join(",")}`, "bookworm", made];
    await runTool(
      mmdebstrap.path("/usr/bin/mmdebstrap"),
      [...args, "http://deb.debian.org/debian"],
      "",
      mmdebstrap.env,
    );
    await rename(made, files).catch(async (error: unknown) => {
      if (!(await exists(files))) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return files;
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** How a program runs in a machine. */
export interface RunOptions {
  /** Default: root. */
  readonly user?: number | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly cwd?: string | undefined;
  /** Nothing can be written but /tmp, /dev and these folders: their paths, each with the folder that is mounted there. */
  readonly readOnlyBut?: Readonly<Record<string, string>> | undefined;
}

/**
 * Runs programs with a folder as their `/`, in namespaces of their own for processes and mounts: each is the first process
 * of its machine, as in a container. The network is that of the tests.
 */
export class Machine {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /** A machine over files that stay as they are; what it writes is in `folder`. */
  static async over(files: string, folder: string): Promise<Machine> {
    const [upper = "", work = "", root = ""] = ["upper", "work", "root"].map((name) => join(folder, name));
    for (const path of [upper, work, root]) await mkdir(path, { recursive: true });
    const layers = `lowerdir=${files},upperdir=${upper},workdir=${work}`;
    await runTool("mount", ["-t", "overlay", "overlay", "-o", layers, root], "", process.env);
    return new Machine(root);
  }

  /** Ends a machine of `over`. */
  async end(): Promise<void> {
    await runTool("umount", ["--lazy", this.root], "", process.env);
  }

  path(path: string): string {
    return join(this.root, path);
  }

  start(command: readonly string[], { user, env = {}, cwd = "/", readOnlyBut }: RunOptions = {}): Running {
    const mounts = Object.entries(readOnlyBut ?? {}).map(([to, from]) => `mount --bind ${from} "$root"${to}`);
    const script = [
      'root="$1"; shift',
      'mount --bind "$root" "$root"',
      'mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; mount -t tmpfs tmpfs "$root/tmp"',
      ...mounts,
      ...(readOnlyBut === undefined ? [] : ['mount -o remount,bind,ro "$root"']),
      'exec chroot "$root" "$@"',
    ].join("\n");
    const account =
      user === undefined
        ? []
        : ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", "--no-new-privs", "--bounding-set=-all"];
    const variables = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ...env };
    const environment = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
    const inside = ["env", "--ignore-environment", `--chdir=${cwd}`, ...environment, ...account, ...command];
    const outside = ["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script, "sh", this.root];
    const running = watchOutput(spawn("unshare", [...outside, ...inside]));
    running.process.stdin.end();
    return running;
  }

  run(command: readonly string[], options: RunOptions = {}): Promise<Ended> {
    return this.start(command, options).ended;
  }
}

/** Sends a signal to the first process of a machine, from outside of it. */
export async function signal({ process: { pid } }: Running, name: NodeJS.Signals): Promise<void> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  process.kill(Number(children.trim()), name);
}
