import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, zstdCompressSync } from "node:zlib";

/** Of the libraries, what is never read at run time: declarations, maps, their documents and tests. */
const unused = /\.map$|\.[cm]?ts$|\.md$|\.markdown$|\/(?:tests?|coverage)\//;

/**
 * Writes the executable of an installation.
 * @param installation a folder with the package and its libraries
 * @param node the Node.js to use, of the processor it is for, and of the version that runs this
 */
export function buildExecutable(installation: string, node: string, output: string): void {
  const files = readdirSync(installation, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(installation, join(entry.parentPath, entry.name)))
    .filter((file) => !/^node_modules\/\.|^package-lock\.json$/.test(file))
    .filter((file) => !(file.startsWith("node_modules/") ? unused.test(file) : file.endsWith(".d.ts")))
    .sort();
  const contents = files.map((file) => readFileSync(join(installation, file)));
  const content = Buffer.concat(contents);
  const { version } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as { version: string };
  const sizes = files.map((file, index) => [file, contents[index]?.length] as const);
  const digest = createHash("sha256").update(JSON.stringify(sizes)).update(content).digest("hex").slice(0, 16);

  const work = mkdtempSync(join(tmpdir(), "rollcall-executable-"));
  try {
    const assets = { "files.json": join(work, "files.json"), "files.zst": join(work, "files.zst") };
    writeFileSync(assets["files.json"], JSON.stringify({ name: `${version}-${digest}`, files: sizes }));
    const params = { [constants.ZSTD_c_compressionLevel]: 9 };
    writeFileSync(assets["files.zst"], zstdCompressSync(content, { params }));
    const main = fileURLToPath(new URL("main.js", import.meta.url));
    const config = { main, executable: node, output, disableExperimentalSEAWarning: true, assets };
    writeFileSync(join(work, "config.json"), JSON.stringify(config));
    execFileSync(process.execPath, ["--build-sea", join(work, "config.json")], {
      stdio: ["ignore", "ignore", "inherit"],
    });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
