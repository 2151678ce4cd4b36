import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A kind of processor, as Node.js calls it. */
export type Architecture = "x64" | "arm64";

/**
 * Unpacks a package into a new folder and installs there, in the versions of `package-lock.json`, for Linux with the GNU C library,
 * the libraries that its bundle does not have.
 */
export function installPackage(archive: string, folder: string, architecture: Architecture): void {
  mkdirSync(folder);
  execFileSync("tar", [
    "--extract",
    "--gzip",
    "--strip-components=1",
    "--no-same-owner",
    "--file",
    archive,
    "--directory",
    folder,
  ]);
  copyFileSync(join(root, "package-lock.json"), join(folder, "package-lock.json"));
  const platform = [`--cpu=${architecture}`, "--os=linux", "--libc=glibc"];
  execFileSync(
    "npm",
    ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", ...platform],
    {
      cwd: folder,
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  removeBundled(folder);
}

interface Manifest {
  /** Of the bundle: the libraries in it. */
  readonly bundled?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Removes libraries that are in the bundle, unless others need them. Connectors of one's own may import `zod`. */
function removeBundled(folder: string): void {
  const read = (of: string): Manifest => JSON.parse(readFileSync(join(folder, of, "package.json"), "utf8")) as Manifest;
  const { bundled = [] } = read("dist");
  const { dependencies = {} } = read(".");
  const libraries = join(folder, "node_modules");
  const needed = new Set(["zod", ...Object.keys(dependencies).filter((name) => !bundled.includes(name))]);
  for (const name of needed) {
    if (!existsSync(join(libraries, name))) continue;
    const own = read(`node_modules/${name}`);
    for (const each of Object.keys({ ...own.dependencies, ...own.optionalDependencies })) needed.add(each);
  }
  for (const entry of readdirSync(libraries)) {
    const names = entry.startsWith("@")
      ? readdirSync(join(libraries, entry)).map((name) => `${entry}/${name}`)
      : [entry];
    for (const name of names) if (!needed.has(name)) rmSync(join(libraries, name), { recursive: true });
  }
}

/** Fetches the Node.js of this version for a processor into a folder. @returns its path */
export function fetchNode(folder: string, architecture: Architecture): string {
  const name = `node-linux-${architecture}@${process.versions.node}`;
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--loglevel=error", "--pack-destination", folder, name], {
      encoding: "utf8",
    }),
  ) as [{ filename: string }];
  const unpacked = join(folder, `node-${architecture}`);
  mkdirSync(unpacked);
  execFileSync("tar", [
    "--extract",
    "--gzip",
    "--file",
    join(folder, packed.filename),
    "--directory",
    unpacked,
    "package/bin/node",
  ]);
  return join(unpacked, "package/bin/node");
}
