import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { root } from "#root.ts";

/** Made by `npm run site`; the package has it, a checkout has it once it is built. */
const site = fileURLToPath(new URL("site", root));

const contentTypes: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
};

/** Addresses of the site, in pages, sheets and scripts: they are written with the path that it is built for. */
const addresses = /(?<=["'`(=])\/docs\//g;

/**
 * Serves the documents of this version at /docs, to everybody: they hold nothing of this installation.
 * @param options.root the path of the public URL, below which their addresses lead
 */
export function addDocuments(
  app: FastifyInstance,
  { root: below = "", folder = site }: { readonly root?: string; readonly folder?: string } = {},
): void {
  app.get("/docs", async (_request, reply) => reply.redirect("/docs/", 308));
  app.get("/docs/*", async (request, reply) => {
    const { "*": path = "" } = request.params as { "*"?: string };
    const name = path === "" || path.endsWith("/") ? `${path}index.html` : path;
    const found = await fileOf(folder, name);
    const file = found ?? (await fileOf(folder, "404.html"));
    if (file === undefined)
      throw new Refusal(404, "the documents of this checkout are not built; run `npm run site`, then reload this page");
    reply.code(found === undefined ? 404 : 200);
    const ending = found === undefined ? ".html" : extname(name);
    reply.type(contentTypes[ending] ?? "text/plain; charset=utf-8");
    const isRewritten = below !== "" && [".html", ".css", ".js"].includes(ending) && !name.startsWith("files/");
    const body = isRewritten ? file.toString().replaceAll(addresses, `${below}/docs/`) : file;
    // The names in `assets` change with their content.
    if (found !== undefined && name.startsWith("assets/"))
      return reply.header("cache-control", "public, max-age=31536000, immutable").send(body);
    const tag = `"${hash("sha256", body, "base64url")}"`;
    reply.headers({ "cache-control": "no-cache", etag: tag });
    if (found !== undefined && request.headers["if-none-match"] === tag) return reply.code(304).send();
    return reply.send(body);
  });
}

/** A file of the site; undefined if it has none of this name. */
async function fileOf(folder: string, name: string): Promise<Buffer | undefined> {
  const path = join(folder, name);
  if (!path.startsWith(folder + sep)) return undefined;
  return readFile(path).catch(() => undefined);
}
