import { execFile } from "node:child_process";
import { access, mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Programs of Debian packages that are unpacked beside the tests, or installed (`root` is `/` then). */
export interface Unpacked {
  /** The path of what the package installs: `/usr/sbin/slapd`. */
  path(installed: string): string;
  /** The environment that its programs need. */
  readonly env: NodeJS.ProcessEnv;
}

const cache = fileURLToPath(new URL("../../../node_modules/.cache/rollcall/debian/", import.meta.url));

const pending = new Map<string, Promise<Unpacked>>();

/**
 * Programs of Debian packages: the installed ones if `marker` exists, else downloaded with their dependencies and unpacked
 * below `node_modules/.cache`. Needs no root, installs nothing and touches no running server.
 */
export function debianPackages(name: string, marker: string, packages: readonly string[]): Promise<Unpacked> {
  const known = pending.get(name) ?? provide(name, marker, packages);
  pending.set(name, known);
  return known;
}

/** Why the packages are unavailable here; undefined if they are available. With `CI=true` it throws instead. */
export async function missing(packages: Promise<unknown>): Promise<string | undefined> {
  const reason = await packages.then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error.message.split("\n")[0] : String(error)),
  );
  if (reason !== undefined && process.env["CI"] === "true") throw new Error(reason);
  return reason;
}

async function provide(name: string, marker: string, packages: readonly string[]): Promise<Unpacked> {
  if (await exists(marker)) return { path: (installed) => installed, env: process.env };
  const root = join(cache, name);
  if (!(await exists(join(root, marker)))) await unpack(root, packages);
  const libraries = ["usr/lib", "lib"].flatMap((folder) =>
    [`${folder}/${architecture()}`, folder].map((path) => join(root, path)),
  );
  return {
    path: (installed) => join(root, installed),
    env: { ...process.env, LD_LIBRARY_PATH: libraries.join(delimiter) },
  };
}

/** Unpacks into a temporary folder first: another process may do the same, and the result must be complete. */
async function unpack(root: string, packages: readonly string[]): Promise<void> {
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, "work-"));
  try {
    const own = [`Dir::State::lists=${join(work, "lists")}`, `Dir::Cache=${join(work, "cache")}`];
    await Promise.all(["lists", "cache/archives", "root"].map((path) => mkdir(join(work, path), { recursive: true })));
    const apt = async (...args: string[]): Promise<string> => {
      const options = own.flatMap((option) => ["-o", option]);
      const env = { ...process.env, LC_ALL: "C" };
      return (await run("apt-get", [...options, ...args], { cwd: work, env, maxBuffer: 64 << 20 })).stdout;
    };
    await apt("update", "-qq", "-o", "APT::Update::Error-Mode=any");
    // Only what is missing, and never the C library: it must match the machine's loader.
    const plan = await apt("install", "--simulate", "--no-install-recommends", ...packages);
    const wanted = [...plan.matchAll(/^Inst (\S+) (?:\[\S+\] )?\((\S+)/gm)]
      .map(([, wantedName, version]) => `${wantedName}=${version}`)
      .filter((wantedName) => !/^(libc6|libc-bin)[=:]/.test(wantedName));
    await apt("download", "-qq", "-o", "APT::Sandbox::User=root", ...wanted);
    for (const file of (await readdir(work)).filter((entry) => entry.endsWith(".deb"))) {
      await run("dpkg-deb", ["--extract", join(work, file), join(work, "root")]);
    }
    await rename(join(work, "root"), root).catch(async (error: unknown) => {
      if (!(await exists(root))) throw error;
    });
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new Error(`Debian's packages ${packages.join(", ")} cannot be had here: ${problem.replaceAll("\n", " ")}`, {
      cause: error,
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The name of this machine's architecture in the paths of libraries. */
export function architecture(): string {
  return process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
