import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { root } from "#root.ts";

const asset = (name: string): string => fileURLToPath(new URL(`src/console/assets/${name}`, root));

/** What pages load, by the name they call it. */
const files: ReadonlyMap<string, string> = new Map([
  ["htmx.js", fileURLToPath(import.meta.resolve("htmx.org/dist/htmx.min.js"))],
  ["hx-sse.js", fileURLToPath(import.meta.resolve("htmx.org/dist/ext/hx-sse.min.js"))],
  [
    "sans.woff2",
    fileURLToPath(
      import.meta.resolve("@fontsource-variable/hanken-grotesk/files/hanken-grotesk-latin-wght-normal.woff2"),
    ),
  ],
  [
    "sans-ext.woff2",
    fileURLToPath(
      import.meta.resolve("@fontsource-variable/hanken-grotesk/files/hanken-grotesk-latin-ext-wght-normal.woff2"),
    ),
  ],
  [
    "mono.woff2",
    fileURLToPath(import.meta.resolve("@fontsource-variable/red-hat-mono/files/red-hat-mono-latin-wght-normal.woff2")),
  ],
  ["base.css", asset("base.css")],
  ["console.css", asset("console.css")],
  ["console.js", asset("console.js")],
  ["icon.svg", asset("icon.svg")],
]);

const contentTypes: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** Adds the scripts, sheets, fonts and pictures that pages load. */
export function addAssets(app: FastifyInstance): void {
  app.get("/assets/:file", async (request, reply) => {
    const { file } = request.params as { file: string };
    const path = files.get(file);
    if (path === undefined) throw new Refusal(404, "there is no such file");
    // Its address has the version of Rollcall.
    reply.type(contentTypes[extname(path)] ?? "").header("cache-control", "public, max-age=86400");
    return readFile(path);
  });
}
