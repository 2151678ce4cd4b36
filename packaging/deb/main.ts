import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fetchNode, installPackage } from "../npm/installation.ts";
import { buildDeb } from "./build.ts";

/** `npm run deb -- FOLDER`: writes the package for Debian, for the processor of this machine, into a folder (default: `release`). */
const root = fileURLToPath(new URL("../../", import.meta.url));
const to = process.argv[2] ?? join(root, "release");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
const architecture = process.arch === "arm64" ? "arm64" : "x64";
process.env["SOURCE_DATE_EPOCH"] ??= execFileSync("git", ["log", "-1", "--format=%ct"], {
  cwd: root,
  encoding: "utf8",
}).trim();
const work = mkdtempSync(join(tmpdir(), "rollcall-deb-"));
try {
  execFileSync("npm", ["pack", "--loglevel=error", "--pack-destination", work], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const installation = join(work, "installation");
  installPackage(join(work, `rollcall-${version}.tgz`), installation, architecture);
  mkdirSync(to, { recursive: true });
  const file = await buildDeb({ installation, node: fetchNode(work, architecture), architecture, to });
  process.stdout.write(`${file}\n`);
} finally {
  rmSync(work, { recursive: true, force: true });
}
