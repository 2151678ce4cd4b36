import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { defineConfig } from "vitepress";
import type { DefaultTheme, MarkdownOptions, MarkdownRenderer } from "vitepress";
import description from "../../package.json" with { type: "json" };

/*
 * The documents as a site: `npm run site` builds it into `site/`, and the service serves that at /docs. The pages are
 * the Markdown files of the repository as they are; links that leave them are resolved here.
 */

const base = "/docs/";
const root = join(import.meta.dirname, "../..");

/** Where a page is on the site, by its file. */
const pages: Record<string, string> = {
  "CHANGELOG.md": "changelog.md",
  "CONTRIBUTING.md": "contributing.md",
  "docs/README.md": "index.md",
};
for (const folder of ["docs", "connectors"])
  for (const path of readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }))
    if (path.endsWith(".md"))
      pages[`${folder}/${path}`] ??= (folder === "docs" ? path : `${folder}/${path}`).replace("README.md", "index.md");

/** The parts of the contents: a folder, and the order of its pages; those that are not named come last. */
const contents: readonly { readonly text: string; readonly folder: string; readonly order: readonly string[] }[] = [
  {
    text: "Guide",
    folder: "docs/guide/",
    order: [
      "docs/guide/getting-started.md",
      "docs/guide/sources.md",
      "docs/guide/targets.md",
      "docs/guide/recipes/README.md",
      "docs/guide/rules.md",
      "docs/guide/plans.md",
      "docs/guide/limits-and-protection.md",
      "docs/guide/approvals-and-undo.md",
      "docs/guide/causes-and-drift.md",
      "docs/guide/leavers.md",
      "docs/guide/schedules.md",
      "docs/guide/notifications.md",
      "docs/guide/console.md",
      "docs/guide/accounts.md",
      "docs/guide/exports.md",
      "docs/guide/loading-files.md",
      "docs/guide/pinboards.md",
      "docs/guide/postgresql.md",
      "docs/guide/troubleshooting.md",
    ],
  },
  {
    text: "Operations",
    folder: "docs/operations/",
    order: [
      "docs/operations/installation.md",
      "docs/operations/upgrading.md",
      "docs/operations/containers.md",
      "docs/operations/platforms.md",
      "docs/operations/security.md",
      "docs/operations/logs.md",
      "docs/operations/monitoring.md",
      "docs/operations/logs.md",
      "docs/operations/backup.md",
      "docs/operations/audit.md",
      "docs/operations/daemons.md",
      "docs/operations/replicas.md",
    ],
  },
  {
    text: "Reference",
    folder: "docs/reference/",
    order: [
      "docs/reference/commands.md",
      "docs/reference/configuration.md",
      "docs/reference/control-api.md",
      "docs/reference/errors.md",
      "docs/glossary.md",
      "connectors/README.md",
      "docs/architecture.md",
      "docs/benchmarks.md",
      "CONTRIBUTING.md",
      "CHANGELOG.md",
    ],
  },
  {
    text: "Interface",
    folder: "docs/interface/",
    order: [
      "docs/interface/README.md",
      "docs/interface/transport.md",
      "docs/interface/data-loads.md",
      "docs/interface/administration.md",
    ],
  },
];

/** Pages that stand below another one, by its file. */
const below: Record<string, readonly string[]> = {
  "docs/guide/sources.md": Object.keys(pages).filter((page) => /^connectors\/\w+\/README\.md$/.test(page)),
  "docs/guide/recipes/README.md": Object.keys(pages).filter((page) => /^docs\/guide\/recipes\/(?!README)/.test(page)),
};

function sidebar(): DefaultTheme.SidebarItem[] {
  const placed = new Set([...contents.flatMap(({ order }) => order), ...Object.values(below).flat()]);
  const others = Object.keys(pages).filter((page) => !placed.has(page));
  return contents.map(({ text, folder, order }) => ({
    text,
    items: [...order, ...others.filter((page) => page.startsWith(folder))].map(item),
  }));
}

function item(page: string): DefaultTheme.SidebarItem {
  const text = /^# (?<title>.+)$/m.exec(readFileSync(join(root, page), "utf8"))?.groups?.["title"] ?? page;
  const items = below[page]?.toSorted().map(item);
  return { text, link: `/${pages[page] ?? ""}`, ...(items === undefined ? {} : { collapsed: true, items }) };
}

/** Files of the repository that pages link to: the site has copies, which browsers show as text. */
const linked = new Set<string>();

/** Where a link of a page leads on the site; undefined: to something that the site does not have. */
function onSite(page: string, link: string): string | undefined {
  if (/^(?:[a-z]+:|#)/.test(link)) return link;
  const [path = "", anchor] = link.split("#");
  const target = relative(root, join(dirname(page), path));
  const place = pages[target];
  if (place !== undefined) return `/${place}${anchor === undefined ? "" : `#${anchor}`}`;
  const file = statSync(join(root, target), { throwIfNoEntry: false });
  if (file === undefined) throw new Error(`${relative(root, page)} links to ${link}, which is not there`);
  if (file.isDirectory() || target.startsWith("src/") || target === "README.md") return undefined;
  linked.add(target);
  return `${base}files/${target}`;
}

function resolveLinks(md: MarkdownRenderer): void {
  md.core.ruler.push("links of the repository", ({ tokens, env }) => {
    // The index of the search has no other path than that of the file.
    const { path, realPath = path } = env as { path: string; realPath?: string };
    for (const { children } of tokens) {
      let isGone = false;
      for (const token of children ?? []) {
        if (token.type === "link_open") {
          const link = onSite(realPath, token.attrGet("href") ?? "");
          isGone = link === undefined;
          if (link?.startsWith(base)) token.attrSet("target", "_blank");
          if (link !== undefined) token.attrSet("href", link);
        }
        if (isGone && token.type.startsWith("link_")) Object.assign(token, { type: "text", content: "", tag: "" });
      }
    }
  });
}

/** Cells of numbers have a class for their side: the policy of the pages forbids `style`. */
function alignByClass(md: MarkdownRenderer): void {
  md.core.ruler.push("alignment by class", ({ tokens }) => {
    for (const token of tokens) {
      const side = /^text-align:(?<side>\w+)$/.exec(token.attrGet("style") ?? "")?.groups?.["side"];
      if (side === undefined) continue;
      token.attrs = token.attrs?.filter(([name]) => name !== "style") ?? null;
      token.attrJoin("class", side);
    }
  });
}

/** The classes that colour code, with their styles: the policy of the pages forbids `style`. */
const colours = new Map<string, string>();

const classesForStyles: NonNullable<MarkdownOptions["codeTransformers"]>[number] = {
  name: "classes for styles",
  span: (node) => {
    const { style } = node.properties;
    if (typeof style !== "string") return;
    const name = `code-${digestOf(style)}`;
    colours.set(name, style);
    delete node.properties["style"];
    node.properties["class"] = name;
  },
  pre: (node) => {
    delete node.properties["style"];
  },
};

/** Files that pages load from `assets`, by name: what VitePress writes into the pages, where their policy forbids it. */
const assets = new Map<string, string>();

/** @returns its address, which changes with its content */
function asset(name: string, content: string): string {
  const file = name.replace(".", `.${digestOf(content)}.`);
  assets.set(file, content);
  return `${base}assets/${file}`;
}

/** The icons of VitePress's style sheet in files: the policy of the pages allows no images in addresses. */
function withoutInlineImages(css: string): string {
  return css.replaceAll(
    /url\((?<quote>["']?)data:image\/svg\+xml,(?<svg>.*?)\k<quote>\)/g,
    (_, _quote: string, svg: string) => `url(${asset("icon.svg", decodeURIComponent(svg.replaceAll('\\"', '"')))})`,
  );
}

function withoutInlineCode(html: string): string {
  const css = [...colours.keys()]
    .toSorted()
    .map((name) => `.${name} { ${colours.get(name) ?? ""} }\n`)
    .join("");
  return html
    .replaceAll(
      /<script id="(?<name>[\w-]+)">(?<code>[\s\S]*?)<\/script>/g,
      (_, name: string, code: string) => `<script src="${asset(`${name}.js`, code)}"></script>`,
    )
    .replace("</head>", `<link rel="stylesheet" href="${asset("code.css", css)}"></head>`)
    .replaceAll(/(?<=<[^>]*) style="[^"]*"/g, "");
}

export default defineConfig({
  title: "Rollcall",
  description: description.description,
  lang: "en-GB",
  base,
  srcDir: "..",
  srcExclude: ["README.md", "test/**", "data/**", "site/**", "dist/**", "release/**", "packaging/**"],
  outDir: "../site",
  cacheDir: "../node_modules/.cache/vitepress",
  rewrites: pages,
  // One after the other, so that the index of the search is the same each time.
  buildConcurrency: 1,
  metaChunk: true,
  // It would add a style element, which the policy of the pages forbids.
  appearance: { disableTransition: false },
  head: [["link", { rel: "icon", href: `${base}icon.svg`, type: "image/svg+xml" }]],
  markdown: {
    html: false,
    linkify: false,
    config: (md) => {
      resolveLinks(md);
      alignByClass(md);
    },
    codeTransformers: [classesForStyles],
    anchor: { slugify },
  },
  vite: { build: { assetsInlineLimit: 0, reportCompressedSize: false } },
  transformHtml: withoutInlineCode,
  buildEnd: ({ outDir }) => {
    for (const name of readdirSync(join(outDir, "assets")).filter((each) => each.endsWith(".css"))) {
      const file = join(outDir, "assets", name);
      writeFileSync(file, withoutInlineImages(readFileSync(file, "utf8")));
    }
    for (const [name, content] of assets) writeFileSync(join(outDir, "assets", name), content);
    copyFileSync(join(root, "src/console/assets/icon.svg"), join(outDir, "icon.svg"));
    for (const path of linked) {
      const copy = join(outDir, "files", path);
      mkdirSync(dirname(copy), { recursive: true });
      copyFileSync(join(root, path), copy);
    }
  },
  themeConfig: {
    logo: "/icon.svg",
    search: { provider: "local", options: { miniSearch: { searchOptions: { combineWith: "AND" } } } },
    outline: { level: [2, 3], label: "On this page" },
    sidebar: sidebar(),
    docFooter: { prev: "Before", next: "Next" },
    externalLinkIcon: true,
  },
});

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

/** The anchors that forges give headings, so that a link leads to the same place on the site and in the repository. */
function slugify(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
}
