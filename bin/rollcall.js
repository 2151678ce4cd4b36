#!/usr/bin/env node
// The one file of JavaScript: the cache must be there before the first line of TypeScript, or Node loads a compiler
// of 14 MiB for it at every start.
import { enableCompileCache } from "node:module";
import { join } from "node:path";

// Half of what a short command does is to strip types and compile; a cache beside the libraries spares it from the
// second start on. $NODE_COMPILE_CACHE names another folder. Where it cannot be written, there is none.
enableCompileCache(join(import.meta.dirname, "../node_modules/.cache/compile"));
await import("../src/main.ts");
