import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { controlRoutes } from "#wire/routes.ts";

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

test.each(pages)("every command and flag that %s names is in the reference of commands", (page) => {
  const reference = readFileSync(join(root, "docs/reference/commands.md"), "utf8");
  const helps = new Map(
    [...reference.matchAll(/^#+ `rollcall (?<name>[a-z ]+)`\n+```text\n(?<help>[\s\S]*?)^```$/gm)].map(({ groups }) => [
      groups?.["name"],
      groups?.["help"] ?? "",
    ]),
  );
  const code = [...readFileSync(join(root, page), "utf8").matchAll(/^```sh\n([\s\S]*?)^```$|`([^`\n]+)`/gm)];
  const calls = code.flatMap(([, block, inline]) => [
    ...(block ?? inline ?? "").matchAll(/(?:^|\| |&& |npm run )rollcall (?:-- )?(?<name>[a-z]+)(?<rest>[^#|\n]*)/gm),
  ]);
  const wrong = calls.flatMap(({ groups }) => {
    const { name = "", rest = "" } = groups ?? {};
    const help = helps.get(
      `${name}${/^ (?:verify|test|copy|token(?: (?:add|list|revoke))?|add|list|disable|enable|role|password|remove|tokens|revoke)\b/.exec(rest)?.[0] ?? ""}`,
    );
    if (help === undefined) return [name];
    return [...rest.matchAll(/ (?<flag>--[a-z][\w-]*)/g)].flatMap(({ groups }) =>
      // `load` also reads the spelling of earlier versions.
      help.includes(`${name === "load" ? groups?.["flag"]?.replaceAll("_", "-") : groups?.["flag"]}`)
        ? []
        : [`${name} ${groups?.["flag"]}`],
    );
  });
  expect(wrong).toEqual([]);
});

test("the help of every command has an example and its exit codes", () => {
  const sections = readFileSync(join(root, "docs/reference/commands.md"), "utf8")
    .split(/^##+ `rollcall /m)
    .slice(1);
  const lacking = sections
    // What only has others below it is no command.
    .filter((section) => !/^  help \[command\]/m.test(section))
    .filter((section) => !/^Examples?:\n {2}\S[\s\S]*^Exit codes:\n {2}0/m.test(section));
  expect(lacking.map((section) => section.split("`", 1)[0])).toEqual([]);
  expect(sections.length).toBeGreaterThan(25);
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

test("every route of the daemon's API and every metric is documented", () => {
  const api = readFileSync(join(root, "docs/reference/control-api.md"), "utf8");
  const routes = Object.values(controlRoutes).map(
    ({ method, path }) =>
      `\`${method} ${path
        .replace(":id", "RUN")
        .replace(/:(?:sync|account)/, "NAME")
        .replace(":token", "TOKEN")
        .replace(":source", "SOURCE")}\``,
  );
  expect(routes.filter((route) => !api.includes(route))).toEqual([]);

  const monitoring = readFileSync(join(root, "docs/operations/monitoring.md"), "utf8");
  const metrics = readdirSync(join(root, "src/control"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .flatMap((path) => [...readFileSync(join(root, "src/control", path), "utf8").matchAll(/"(?<name>rollcall_\w+)"/g)])
    .map(({ groups }) => groups?.["name"] ?? "");
  expect(metrics.length).toBeGreaterThan(20);
  expect(metrics.filter((name) => !monitoring.includes(name))).toEqual([]);
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
