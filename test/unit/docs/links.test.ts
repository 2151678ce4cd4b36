import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const pages = ["docs", "connectors"]
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)),
  )
  .concat(readdirSync(root))
  .filter((path) => path.endsWith(".md"));

test.each(pages)("every relative link of %s leads somewhere", (page) => {
  const broken = [...textOf(page).matchAll(/\]\((?<link>[^)\s]+)\)/g)].flatMap(({ groups }) => {
    const link = groups?.["link"] ?? "";
    if (/^[a-z]+:/.test(link)) return [];
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? page : relative(root, join(root, dirname(page), path));
    if (!existsSync(join(root, target))) return [link];
    return anchor === undefined || anchorsOf(target).has(anchor) ? [] : [link];
  });
  expect(broken).toEqual([]);
});

test.each(pages)("every file of the repository that %s names is there", (page) => {
  const text = readFileSync(join(root, page), "utf8");
  const named = [
    ...text.matchAll(/`(?<path>(?:\.ci|bin|config|connectors|docs|packaging|src|test)\/[\w./-]*|#[\w/-]+\.ts)`/g),
  ];
  const missing = named
    .map(({ groups }) => groups?.["path"]?.replace("#", "src/") ?? "")
    .filter((path) => !existsSync(join(root, path)));
  expect(missing).toEqual([]);
});

test("every number of the interface that code and tests cite is explained in docs/interface", () => {
  const explained = new Set(
    ["transport", "data-loads", "administration"].flatMap((name) =>
      [...textOf(`docs/interface/${name}.md`).matchAll(/^(?:#+ |- \*\*)(?<number>(?:[AB0-9]\.)?\d+)\b/gm)].map(
        ({ groups }) => groups?.["number"],
      ),
    ),
  );
  const cited = ["src", "test"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts"))
      .flatMap((path) => [
        ...readFileSync(join(root, folder, path), "utf8").matchAll(
          /\b(?<number>[AB]\.\d+|(?<=[Ss]pecification )\d\.\d+)\b/g,
        ),
      ])
      .map(({ groups }) => groups?.["number"]),
  );
  expect(cited.length).toBeGreaterThan(100);
  expect([...new Set(cited)].filter((number) => !explained.has(number))).toEqual([]);
});

/** A page without its code, where nothing is a link. */
function textOf(page: string): string {
  return readFileSync(join(root, page), "utf8")
    .replaceAll(/^ *```[\s\S]*?^ *```$/gm, "")
    .replaceAll(/`[^`\n]*`(?!\])/g, "");
}

/** The anchors that GitHub gives the headings of a page. */
function anchorsOf(path: string): ReadonlySet<string> {
  if (!path.endsWith(".md") || statSync(join(root, path)).isDirectory()) return new Set();
  const text = readFileSync(join(root, path), "utf8").replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");
  return new Set(
    [...text.matchAll(/^#+ (?<heading>.+)$/gm)].map(({ groups }) =>
      (groups?.["heading"] ?? "")
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .trim()
        .replaceAll(" ", "-"),
    ),
  );
}
