import { readdirSync } from "node:fs";
import { defineConfig } from "oxlint";
import type { OxlintConfig } from "oxlint";

type Override = NonNullable<OxlintConfig["overrides"]>[number];

/** What every module may import. These know nothing of the others. */
const basics = ["errors", "text", "values", "queue"];

/**
 * Who may import whom, beside the basics. A folder of `src/` names another one as `#folder/file.ts`; what its row does
 * not list, it may not import. `main.ts`, the composition root, has no row: it may import everything.
 */
const layers: Record<string, readonly string[]> = {
  "src/wire": [],
  "src/files": [],
  "src/duckdb": ["files"],
  "src/http": ["files"],
  "src/principals": ["duckdb"],
  "src/connector.ts": ["principals"],
  connectors: ["connector", "principals", "files", "http"],
  "src/plan": ["principals", "duckdb", "files"],
  "src/sync": ["plan", "principals", "duckdb", "files", "http", "connector"],
  "src/client": ["wire", "http", "files"],
  "src/client/target.ts": ["client", "wire", "http", "files", "sync/ports", "principals"],
  "src/exports": ["client", "plan", "duckdb", "files"],
  "src/service": ["wire", "plan", "principals", "duckdb", "files", "http/listening"],
  // What can be configured of limits, of the service and of channels is theirs to say.
  "src/config": [
    "files",
    "http",
    "connector",
    "principals",
    "plan/limits",
    "plan/limit-options",
    "service/options",
    "sync/notify/options",
  ],
  "src/control": ["sync", "client", "exports", "config", "plan", "principals", "duckdb", "files", "http", "wire"],
  "src/cli": [
    "control",
    "sync",
    "client",
    "exports",
    "config",
    "connector",
    "plan",
    "principals",
    "duckdb",
    "files",
    "http",
  ],
};

const modules = readdirSync(new URL("src", import.meta.url), { recursive: true, encoding: "utf8" }).filter((path) =>
  path.endsWith(".ts"),
);

/**
 * Matches every `#…` import that the row does not list, and every path that leaves its folder without a `#`: the rows
 * know nothing of those. `connectors/index.ts`, the list, names what is below it.
 */
function outside(place: string, allowed: readonly string[]): string {
  const own = (path: string): boolean => `src/${path}`.startsWith(`${place}/`);
  const forbidden = modules.filter(
    (path) => !own(path) && !allowed.some((name) => path === `${name}.ts` || path.startsWith(`${name}/`)),
  );
  const below = place.startsWith("src/") ? "\\./.*/|" : "";
  return `^(?:\\.\\./|${below}#connectors/|#(?:${forbidden.map((path) => path.replaceAll(".", "\\.")).join("|")})$)`;
}

export default defineConfig({
  plugins: ["typescript", "unicorn", "oxc", "import", "promise", "node", "vitest"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  options: { typeAware: true },
  rules: {
    "import/no-cycle": ["error", { ignoreTypes: true }],
    // `fc.string()` and `cron.schedule()` read better than their bare names.
    "import/no-named-as-default-member": "off",
    "import/no-unassigned-import": "off",
    "no-await-in-loop": "off",
    "no-shadow": "off",
    "no-underscore-dangle": "off",
    "typescript/no-floating-promises": "error",
    "typescript/no-misused-promises": "error",
    "typescript/no-explicit-any": "error",
    "typescript/no-non-null-assertion": "error",
    "typescript/consistent-type-imports": "error",
    "typescript/switch-exhaustiveness-check": "error",
    "typescript/no-unsafe-type-assertion": "off",
    "typescript/only-throw-error": "error",
    // What looks like a method here is a function of an object literal: none uses `this`.
    "typescript/unbound-method": "off",
    "unicorn/no-array-sort": "off",
    "unicorn/no-array-reverse": "off",
    "unicorn/require-post-message-target-origin": "off",
    "no-console": "error",
    eqeqeq: "error",
    "no-var": "error",
    "prefer-const": "error",
  },
  overrides: [
    ...[
      ...basics.map((name): [string, readonly string[]] => [`src/${name}.ts`, name === "values" ? ["text"] : []]),
      ...Object.entries(layers).map(([place, allowed]): [string, readonly string[]] => [
        place,
        [...basics, ...allowed],
      ]),
    ].map(([place, allowed]): Override => ({
      files: [place.endsWith(".ts") ? place : `${place}/**/*.ts`],
      rules: {
        "no-restricted-imports": [
          "error",
          {
            patterns: [
              { regex: outside(place, allowed), message: `${place} may import: ${allowed.join(", ") || "nothing"}` },
            ],
          },
        ],
      },
    })),
    {
      files: ["test/**/*.ts"],
      rules: {
        "no-console": "off",
        "typescript/no-non-null-assertion": "off",
        "unicorn/consistent-function-scoping": "off",
        "oxc/no-map-spread": "off",
        "vitest/no-conditional-expect": "off",
        // The second argument is vitest's: what to say when the expectation fails.
        "vitest/valid-expect": ["error", { maxArgs: 2 }],
      },
    },
  ],
});
