import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A kind of processor, as Node.js calls it. */
export type Architecture = "x64" | "arm64";

/**
 * Unpacks a package into a new folder and installs its libraries there, in the versions of `package-lock.json`, for Linux
 * with the GNU C library.
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
