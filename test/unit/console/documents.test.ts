import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fastify } from "fastify";
import { afterAll, expect, test } from "vitest";
import { addDocuments } from "#console/documents.ts";

const parent = mkdtempSync(join(tmpdir(), "rollcall-site-"));
const folder = join(parent, "site");
afterAll(() => rmSync(parent, { recursive: true }));
writeFileSync(join(parent, "secret.html"), "secret\n");
for (const [name, text] of Object.entries({
  "index.html": "home",
  "404.html": "no such page",
  "guide/plans.html": "plans",
  "connectors/ldap/index.html": "ldap",
  "assets/app.1a2b.js": "1",
  "files/config/rollcall.yaml": "service:",
})) {
  mkdirSync(join(folder, name, ".."), { recursive: true });
  writeFileSync(join(folder, name), text);
}

const app = fastify();
addDocuments(app, { folder });

test.each([
  ["/docs/", "home", "text/html; charset=utf-8"],
  ["/docs/guide/plans.html?from=console", "plans", "text/html; charset=utf-8"],
  ["/docs/connectors/ldap/", "ldap", "text/html; charset=utf-8"],
  ["/docs/assets/app.1a2b.js", "1", "text/javascript; charset=utf-8"],
  ["/docs/files/config/rollcall.yaml", "service:", "text/plain; charset=utf-8"],
])("%s is served with its type", async (url, body, type) => {
  const answer = await app.inject({ url });
  expect([answer.statusCode, answer.body, answer.headers["content-type"]]).toEqual([200, body, type]);
});

test("the address without a slash leads to the one with it, for the links of the page", async () => {
  const { statusCode, headers } = await app.inject({ url: "/docs" });
  expect([statusCode, headers.location]).toEqual([308, "/docs/"]);
});

test.each([
  "/docs/nothing.html",
  "/docs/guide",
  "/docs/guide/",
  "/docs/assets/gone.js",
  "/docs/../secret.html",
  "/docs/%2e%2e/secret.html",
  "/docs/..%2fsecret.html",
  "/docs/guide/..%2f..%2f..%2fsecret.html",
  "/docs/..%5csecret.html",
  "/docs/%2fetc%2fpasswd",
  "/docs/index.html%00",
])("%s is not there", async (url) => {
  const { statusCode, body } = await app.inject({ url });
  expect([statusCode, body]).toEqual([404, expect.not.stringContaining("secret\n")]);
});

test("a page that is not there is the page of the site that says so", async () => {
  const { statusCode, body, headers } = await app.inject({ url: "/docs/nothing.html" });
  expect([statusCode, body]).toEqual([404, "no such page"]);
  expect([headers["content-type"], headers["cache-control"]]).toEqual(["text/html; charset=utf-8", "no-cache"]);
});

test("a browser asks again for a page, and gets it only if it is another one; never again for what its name dates", async () => {
  const { headers } = await app.inject({ url: "/docs/guide/plans.html" });
  expect(headers["cache-control"]).toBe("no-cache");
  const again = { url: "/docs/guide/plans.html", headers: { "if-none-match": String(headers.etag) } };
  expect(await app.inject(again)).toMatchObject({ statusCode: 304, body: "" });
  writeFileSync(join(folder, "guide/plans.html"), "PLANS");
  expect(await app.inject(again)).toMatchObject({ statusCode: 200, body: "PLANS" });
  const asset = await app.inject({ url: "/docs/assets/app.1a2b.js" });
  expect(asset.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
});

test("a checkout without the site says how to build it", async () => {
  const unbuilt = fastify();
  addDocuments(unbuilt, { folder: join(parent, "none") });
  const { statusCode, body } = await unbuilt.inject({ url: "/docs/" });
  expect([statusCode, body]).toEqual([404, expect.stringContaining("npm run site")]);
});

test("below a path, pages, sheets and scripts lead below it; files that people copy stay as they are", async () => {
  const proxied = fastify();
  addDocuments(proxied, { root: "/rollcall", folder });
  for (const [name, text, expected] of [
    ["links.html", '<a href="/docs/guide/">/docs/</a>', '<a href="/rollcall/docs/guide/">/docs/</a>'],
    ["assets/a.css", "url(/docs/assets/a.svg)", "url(/rollcall/docs/assets/a.svg)"],
    ["assets/a.js", '{\\"base\\":\\"/docs/\\"}', '{\\"base\\":\\"/rollcall/docs/\\"}'],
    ["assets/b.js", '"https://example.com/docs/"', '"https://example.com/docs/"'],
    ["files/x.html", '"/docs/"', '"/docs/"'],
  ] as const) {
    writeFileSync(join(folder, name), text);
    expect((await proxied.inject({ url: `/docs/${name}` })).body, name).toBe(expected);
  }
});
