import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildDeb } from "./deb/build.ts";
import { buildExecutable } from "./executable/build.ts";
import { fetchNode, installPackage } from "./npm/installation.ts";
import type { Architecture } from "./npm/installation.ts";
import { notesOf } from "./notes.ts";

/*
 * `npm run release` makes everything that is released into `release/`, the same bytes each time:
 *
 *   --to FOLDER            another folder
 *   --architecture NAME    x64 or arm64; may be repeated (default: both)
 *   SOURCE_DATE_EPOCH      the time of the release, in seconds (default: that of the commit)
 *   ROLLCALL_RELEASE_KEY   the private SSH key that signs; without it, nothing is signed
 */
const root = fileURLToPath(new URL("../", import.meta.url));
const { values } = parseArgs({
  options: {
    to: { type: "string", default: join(root, "release") },
    architecture: { type: "string", multiple: true, default: ["x64", "arm64"] },
  },
});
const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
process.env["SOURCE_DATE_EPOCH"] ??= run("git", ["log", "-1", "--format=%ct"]).trim();
// The bundler of the site numbers what it makes in the order in which its threads are done: with one of each it is always the same.
process.env["RAYON_NUM_THREADS"] = process.env["TOKIO_WORKER_THREADS"] = "1";
const work = await mkdtemp(join(tmpdir(), "rollcall-release-"));
try {
  await rm(values.to, { recursive: true, force: true });
  await mkdir(values.to, { recursive: true });
  await release(values.to, values.architecture as Architecture[]);
} finally {
  await rm(work, { recursive: true, force: true });
}

async function release(folder: string, architectures: readonly Architecture[]): Promise<void> {
  run("npm", ["pack", "--loglevel=error", "--pack-destination", folder]);
  const archive = join(folder, `rollcall-${version}.tgz`);
  for (const architecture of architectures) {
    const installation = join(work, architecture);
    installPackage(archive, installation, architecture);
    const node = fetchNode(work, architecture);
    buildExecutable(installation, node, join(folder, `rollcall-${version}-linux-${architecture}`));
    await buildDeb({ installation, node, architecture, to: folder });
  }
  await writeFile(join(folder, `rollcall-${version}.cdx.json`), await billOfMaterials());
  await writeFile(join(folder, "NOTES.md"), notesOf(await readFile(join(root, "CHANGELOG.md"), "utf8"), version));
  await writeSums(folder);
  sign(join(folder, "SHA256SUMS"));
}

/**
 * The CycloneDX document of what is installed, on any processor, with a time that follows from the release. Of an
 * installation with development dependencies npm would leave out all that these need as well (`pg`, `zod`).
 */
async function billOfMaterials(): Promise<string> {
  const folder = join(work, "bill");
  await mkdir(folder);
  const { devDependencies: _, ...rest } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as object & {
    devDependencies: object;
  };
  await writeFile(join(folder, "package.json"), JSON.stringify(rest));
  await copyFile(join(root, "package-lock.json"), join(folder, "package-lock.json"));
  run("npm", ["install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--prefer-offline"], folder);
  const npm = ["sbom", "--sbom-format", "cyclonedx", "--sbom-type", "application", "--package-lock-only"];
  const document = JSON.parse(run("npm", npm, folder)) as {
    serialNumber?: string;
    metadata: { timestamp?: string; component: { name: string } };
  };
  delete document.serialNumber;
  document.metadata.timestamp = new Date(Number(process.env["SOURCE_DATE_EPOCH"]) * 1_000).toISOString();
  document.metadata.component.name = "rollcall";
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** As `sha256sum --check` reads it. */
async function writeSums(folder: string): Promise<void> {
  const lines: string[] = [];
  for (const file of (await readdir(folder)).toSorted()) {
    const hash = createHash("sha256");
    await pipeline(createReadStream(join(folder, file)), hash);
    lines.push(`${hash.digest("hex")}  ${file}\n`);
  }
  await writeFile(join(folder, "SHA256SUMS"), lines.join(""));
}

function sign(file: string): void {
  const key = process.env["ROLLCALL_RELEASE_KEY"];
  if (key === undefined) {
    process.stderr.write("not signed: ROLLCALL_RELEASE_KEY names no key\n");
    return;
  }
  run("ssh-keygen", ["-Y", "sign", "-q", "-f", key, "-n", "rollcall-release", file]);
}

function run(command: string, args: readonly string[], cwd = root): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}
