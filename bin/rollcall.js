#!/usr/bin/env node
// The one file of JavaScript, and of JavaScript that a Node.js of long ago understands: whoever has one is told so,
// instead of being shown a syntax error.
import { readFileSync } from "node:fs";
import * as module from "node:module";
import { fileURLToPath } from "node:url";

const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const needed = engines.node.replace(/^\D+/, "");
const [major, minor] = needed.split(".").map(Number);
const [ownMajor, ownMinor] = process.versions.node.split(".").map(Number);
if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  process.stderr.write(
    `rollcall needs Node.js ${needed} or newer; ${process.execPath} is ${process.versions.node}. Install a newer one ` +
      "(https://nodejs.org/en/download). In a checkout, `npm install` brings one that `npm start` and `npm run rollcall -- COMMAND` use.\n",
  );
  process.exitCode = 1;
} else {
  // A statement of DuckDB occupies a thread of Node's pool until it ends, and so does a password that is checked. With the usual four
  // nothing would be left for files while both are at work. The pool is made when it is first used.
  process.env.UV_THREADPOOL_SIZE ??= "12";
  // Half of what a short command does is to strip types and compile; a cache beside the libraries spares it from the
  // second start on. It must be there before the first line of TypeScript, or Node loads a compiler of 14 MiB for it at
  // every start. $NODE_COMPILE_CACHE names another folder. Where it cannot be written, there is none.
  module.enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/compile", import.meta.url)));
  const { main } = await import("../src/main.ts");
  process.exitCode = await main(process.argv);
}
