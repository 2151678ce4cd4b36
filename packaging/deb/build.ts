import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Architecture } from "../npm/installation.ts";
import { writeManual } from "./man.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const sources = join(root, "packaging/deb/debian");
const { version, description } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  version: string;
  description: string;
};
const names = { x64: "amd64", arm64: "arm64" } as const;

const maintainer = "Rollcall maintainers <maintainers@rollcall.example>";

function run(program: string, args: readonly string[], cwd = root): string {
  return execFileSync(program, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 64 * 1024 ** 2,
  });
}

/** Puts a text into the package, readable by all. */
function put(stage: string, path: string, text: string | Buffer, mode = 0o644): void {
  const file = join(stage, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
}

/** Of the libraries, what is never read at run time. */
const unused =
  /\.(?:map|[cm]?ts|md|markdown|html?|sh|tsbuildinfo)$|\/(?:tests?|coverage|benchmarks?|integration|scripts|examples?)\/|\/\.[^/]*$/;

/** The program: an installation of the npm package, and the runtime. */
function putProgram(stage: string, { installation, node, architecture }: DebOptions): void {
  const program = join(stage, "usr/lib/rollcall");
  cpSync(installation, program, {
    recursive: true,
    filter: (from) => {
      const path = relative(installation, from);
      if (/^(?:README|CHANGELOG)\.md$|^LICENSE$|^package-lock\.json$|^node_modules\/\./.test(path)) return false;
      if (path.startsWith("node_modules/")) return !unused.test(statSync(from).isDirectory() ? `${path}/` : path);
      return !path.endsWith(".d.ts");
    },
  });
  symlinkSync("rollcall.js", join(program, "bin/rollcall"));
  const runtime = join(program, "node");
  cpSync(node, runtime, { dereference: true });
  for (const file of readdirSync(program, { recursive: true, withFileTypes: true })) {
    const path = join(file.parentPath, file.name);
    if (file.isSymbolicLink()) continue;
    // The tool of another processor need not be there; what it takes away is never loaded.
    const isBinary = path === runtime || /\.(?:node|so)$/.test(path);
    if (isBinary && architecture === process.arch) run("strip", ["--strip-unneeded", path]);
    // Only the runtime is run: a script of a library is none here.
    chmodSync(path, file.isDirectory() || path === runtime ? 0o755 : 0o644);
    if (file.isFile() && !isBinary) dropInterpreter(path);
  }
}

/** Takes away the first line of a script that says what runs it. */
function dropInterpreter(path: string): void {
  const handle = openSync(path, "r");
  const start = Buffer.alloc(2);
  readSync(handle, start, 0, 2, 0);
  closeSync(handle);
  if (start.toString() !== "#!") return;
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.slice(text.indexOf("\n")));
}

function read(name: string): string {
  return readFileSync(join(sources, name), "utf8");
}

function putFiles(stage: string): void {
  const license = readFileSync(join(root, "LICENSE"), "utf8").trim().split("\n").slice(4);
  const indented = license.map((line) => (line.trim() === "" ? " ." : ` ${line}`)).join("\n");
  put(stage, "usr/bin/rollcall", read("rollcall.sh"), 0o755);
  put(stage, "etc/rollcall/rollcall.yaml", read("rollcall.yaml"));
  put(stage, "usr/lib/sysusers.d/rollcall.conf", read("rollcall.sysusers"));
  put(stage, "usr/lib/tmpfiles.d/rollcall.conf", read("rollcall.tmpfiles"));
  put(stage, "usr/share/lintian/overrides/rollcall", read("lintian-overrides"));
  put(stage, "usr/share/doc/rollcall/copyright", read("copyright").replace("@LICENSE@", indented));
  put(stage, "usr/share/doc/rollcall/NEWS.md.gz", gzipSync(readFileSync(join(root, "CHANGELOG.md")), { level: 9 }));
  put(stage, "usr/share/doc/rollcall/changelog.gz", gzipSync(changelog(), { level: 9 }));
  put(stage, "lib/systemd/system/rollcall.service", unit());
  for (const [shell, path] of [
    ["bash", "usr/share/bash-completion/completions/rollcall"],
    ["zsh", "usr/share/zsh/vendor-completions/_rollcall"],
    ["fish", "usr/share/fish/vendor_completions.d/rollcall.fish"],
  ] as const)
    put(stage, path, run(process.execPath, [join(root, "bin/rollcall.js"), "completion", shell]));
}

/** What Debian's tools read. The changes themselves are in NEWS.md. */
function changelog(): string {
  const time = new Date(Number(process.env["SOURCE_DATE_EPOCH"] ?? 0) * 1000).toUTCString().replace("GMT", "+0000");
  return `rollcall (${version}) stable; urgency=medium\n\n  * Version ${version}: see NEWS.md.gz.\n\n -- ${maintainer}  ${time}\n`;
}

/** The unit, with the account and the paths of the package. */
function unit(): string {
  return readFileSync(join(root, "packaging/rollcall.service"), "utf8")
    .replace(/^#[^]*?\n\n/, "")
    .replace("/usr/bin/node /opt/rollcall/bin/rollcall.js", "/usr/bin/rollcall")
    .replace(
      "# An account of its own, made at the start, that owns these folders and nothing else.\nDynamicUser=yes\n",
      "",
    )
    .replace(": /opt/rollcall cannot be written", "")
    .replace("Description=", "Documentation=man:rollcall(1)\nDescription=");
}

function putControl(stage: string, architecture: Architecture): void {
  const size = Number(run("du", ["-sk", "--apparent-size", "--exclude=DEBIAN", stage]).split("\t")[0]);
  const control = [
    "Package: rollcall",
    `Version: ${version}`,
    `Architecture: ${names[architecture]}`,
    `Maintainer: ${maintainer}`,
    `Installed-Size: ${size}`,
    "Depends: libc6 (>= 2.28), libatomic1, libgcc-s1 (>= 3.4), libstdc++6 (>= 11), procps, init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers | systemd-sysusers, systemd | systemd-standalone-tmpfiles | systemd-tmpfiles",
    "Section: admin",
    "Priority: optional",
    `Description: ${description.replace(/^[A-Z]/, (letter) => letter.toLowerCase()).replace(/\.$/, "")}`.slice(0, 93),
    " Rollcall reads users and groups from directories, shows what would change in",
    " a target, has it approved, applies it on a schedule and proves that it",
    " arrived. It is a complete target itself, with tables and pinboards.",
    "",
  ];
  put(stage, "DEBIAN/control", control.join("\n"));
  put(stage, "DEBIAN/conffiles", "/etc/rollcall/rollcall.yaml\n");
  for (const script of ["postinst", "prerm", "postrm"])
    put(stage, `DEBIAN/${script}`, readFileSync(join(sources, script)), 0o755);
  const files = readdirSync(stage, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(stage, join(entry.parentPath, entry.name)))
    .filter((file) => !file.startsWith("DEBIAN/"))
    .sort();
  const md5 = (file: string): string =>
    createHash("md5")
      .update(readFileSync(join(stage, file)))
      .digest("hex");
  put(stage, "DEBIAN/md5sums", files.map((file) => `${md5(file)}  ${file}\n`).join(""));
}

export interface DebOptions {
  /** A folder with the npm package and its libraries. */
  readonly installation: string;
  /** The Node.js that runs it, of the processor that it is for: Debian 12 has one that is too old. */
  readonly node: string;
  readonly architecture: Architecture;
  /** The folder that the package is written to. */
  readonly to: string;
}

/**
 * Writes `rollcall_VERSION_ARCHITECTURE.deb`. Needs `dpkg-deb` and `strip`. The same installation makes the same bytes, with the
 * same `SOURCE_DATE_EPOCH`.
 * @returns its path
 */
export async function buildDeb(options: DebOptions): Promise<string> {
  const stage = mkdtempSync(join(tmpdir(), "rollcall-deb-"));
  try {
    putProgram(stage, options);
    putFiles(stage);
    await writeManual(join(stage, "usr/share/man/man1"), version);
    putControl(stage, options.architecture);
    const file = resolve(options.to, `rollcall_${version}_${names[options.architecture]}.deb`);
    run("chmod", ["-R", "u+rwX,go+rX,go-w", stage]);
    run("dpkg-deb", ["--root-owner-group", "-Zzstd", "-z10", "--build", stage, file]);
    return file;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}
