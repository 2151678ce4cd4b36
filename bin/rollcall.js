#!/usr/bin/env node
"use strict";
// JavaScript that a Node.js of years ago understands: whoever has one is told so, instead of being shown a syntax error.
const fs = require("fs");
const module_ = require("module");
const os = require("os");
const path = require("path");

const root = path.dirname(__dirname);
const needed = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")).engines.node.replace(/^\D+/, "");
const [major, minor] = needed.split(".").map(Number);
const [ownMajor, ownMinor] = process.versions.node.split(".").map(Number);
/** A checkout runs its TypeScript, the installed package what was bundled of it. */
const isCheckout = fs.existsSync(path.join(root, "src", "main.ts"));

if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  process.stderr.write(
    `rollcall needs Node.js ${needed} or newer; ${process.execPath} is ${process.versions.node}. Install a newer one ` +
      `(https://nodejs.org/en/download)${isCheckout ? ". In a checkout, `npm install` brings one that `npm start` and `npm run rollcall -- COMMAND` use" : ""}.\n`,
  );
  process.exitCode = 1;
} else {
  // A statement of DuckDB occupies a thread of Node's pool until it ends, and so does a password that is checked. With the usual four
  // nothing would be left for files while both are at work. The pool is made when it is first used.
  if (process.env.UV_THREADPOOL_SIZE === undefined) process.env.UV_THREADPOOL_SIZE = "12";
  // Half of what a short command does is to strip types and compile; a cache spares it that from the second start on. It must
  // be there before the first line of TypeScript, or Node loads a compiler of 14 MiB for it at every start.
  // $NODE_COMPILE_CACHE names another folder. Where it cannot be written, there is none.
  module_.enableCompileCache(isCheckout ? path.join(root, "node_modules", ".cache", "compile") : userCache());
  void run();
}

async function run() {
  const { main } = await import(isCheckout ? "../src/main.ts" : "../dist/main.js");
  process.exitCode = await main(process.argv);
}

/** An installed package may belong to another account. The home is not $HOME, which `sudo` may leave to root. */
function userCache() {
  try {
    return path.join(process.env.ROLLCALL_CACHE || path.join(os.userInfo().homedir, ".cache", "rollcall"), "compile");
  } catch {
    return undefined;
  }
}
