"use strict";
/*
 * The main script of the executable. The program is an archive in it, which is unpacked once for each version into a private
 * folder: the libraries of DuckDB and argon2 must be files. From there it runs like an installed package; what it forks is
 * this executable again, with the script to run.
 */
const fs = require("node:fs");
const { createRequire } = require("node:module");
const os = require("node:os");
const path = require("node:path");
const sea = require("node:sea");
const v8 = require("node:v8");
const vm = require("node:vm");
const zlib = require("node:zlib");

/** That of a main script knows Node's own modules alone. */
const load = createRequire(process.execPath);
const given = process.argv.slice(2);
if (process.connected) runForked();
else runProgram();

function runProgram() {
  let program;
  try {
    program = unpacked();
  } catch (error) {
    process.stderr.write(`rollcall: ${error.message}\n`);
    process.exitCode = 1;
    return;
  }
  process.argv = [process.execPath, process.argv[1], ...given];
  load(path.join(program, "bin", "rollcall.js"));
}

/** A process of the program: Node's own option, if there is one, then the script and its arguments. */
function runForked() {
  if (given[0] === "--expose-gc") {
    given.shift();
    v8.setFlagsFromString("--expose-gc");
    globalThis.gc = vm.runInNewContext("gc");
  }
  process.argv = [process.execPath, ...given];
  load(given[0]);
}

/** @returns the program's folder */
function unpacked() {
  const { name, files } = JSON.parse(sea.getAsset("files.json", "utf8"));
  const cache = cacheFolder();
  const folder = path.join(cache, name);
  let temporary;
  try {
    fs.mkdirSync(cache, { recursive: true, mode: 0o700 });
    refuseOpen(cache);
    if (isWhole(folder, files)) return folder;
    temporary = fs.mkdtempSync(path.join(cache, ".unpacking-"));
    const content = zlib.zstdDecompressSync(sea.getRawAsset("files.zst"));
    let at = 0;
    for (const [file, size] of files) {
      const to = path.join(temporary, file);
      fs.mkdirSync(path.dirname(to), { recursive: true, mode: 0o700 });
      fs.writeFileSync(to, content.subarray(at, at + size), { mode: 0o600, flag: "wx" });
      at += size;
    }
    // What is damaged makes room; another process may have been faster.
    if (!isWhole(folder, files)) fs.rmSync(folder, { recursive: true, force: true });
    try {
      fs.renameSync(temporary, folder);
    } catch (error) {
      if (!isWhole(folder, files)) throw error;
    }
  } catch (error) {
    throw new Error(`cannot run from ${cache}: ${error.message}. ROLLCALL_CACHE names another folder.`, {
      cause: error,
    });
  } finally {
    if (temporary !== undefined) fs.rmSync(temporary, { recursive: true, force: true });
  }
  return folder;
}

function cacheFolder() {
  const { ROLLCALL_CACHE: given } = process.env;
  if (given) return path.resolve(given);
  try {
    // Not $HOME, which `sudo` may leave to root.
    return path.join(os.userInfo().homedir, ".cache", "rollcall");
  } catch {
    throw new Error(
      "this account has no home folder. Set ROLLCALL_CACHE to a folder that only this account can write.",
    );
  }
}

/** What runs is read from there: nobody else may write it. */
function refuseOpen(cache) {
  const { uid, mode } = fs.lstatSync(cache);
  if (uid !== process.getuid() || (mode & 0o022) !== 0) {
    throw new Error("other accounts can write there (`chmod go-w` would stop that)");
  }
}

/** Whether every file is there with its size: a cache may be cleaned, and a machine may have lost power. */
function isWhole(folder, files) {
  return files.every(([file, size]) => fs.statSync(path.join(folder, file), { throwIfNoEntry: false })?.size === size);
}
