import { readdirSync } from "node:fs";
import { defineConfig } from "oxlint";
import type { OxlintConfig } from "oxlint";

type Override = NonNullable<OxlintConfig["overrides"]>[number];

/**
 * Who may import whom. A folder of `src/` names another one as `#folder/file.ts`; what its row does not list,
 * it may not import. `main.ts`, the composition root, has no row: it may import everything.
 */
const layers: Record<string, readonly string[]> = {
  "src/errors.ts": [],
  "src/text.ts": [],
  "src/queue.ts": [],
  "src/wire": [],
  "src/files": ["errors", "text", "queue"],
  "src/duckdb": ["errors", "text", "queue", "files"],
  "src/http": ["errors", "text", "queue", "files"],
  // To be undone: what is sent and where is the caller's to say.
  "src/http/exchange.ts": ["errors", "text", "queue", "files", "http", "wire", "client/form"],
  "src/principals": ["errors", "text", "duckdb"],
  "src/connector.ts": ["principals"],
  connectors: ["connector", "principals", "files", "http", "errors", "text", "queue"],
  "src/plan": ["principals", "duckdb", "files", "errors", "text", "queue"],
  "src/sync": ["plan", "principals", "duckdb", "files", "http", "connector", "errors", "text", "queue"],
  "src/client": ["wire", "http", "files", "errors", "text", "queue"],
  "src/client/target.ts": ["client", "wire", "http", "files", "errors", "text", "queue", "sync/ports", "principals"],
  "src/exports": ["client", "plan", "duckdb", "files", "errors", "text", "queue"],
  "src/service": ["wire", "plan", "principals", "duckdb", "files", "http/listening", "errors", "text", "queue"],
  // What can be configured of limits, of the service and of channels is theirs to say.
  "src/config": [
    "errors",
    "text",
    "files",
    "http",
    "connector",
    "principals",
    "plan/limits",
    "service/settings",
    "sync/notify/options",
  ],
  "src/control": [
    "wire",
    "sync",
    "client",
    "exports",
    "config",
    "plan",
    "principals",
    "duckdb",
    "files",
    "http",
    "errors",
    "text",
    "queue",
    "control",
  ],
  "src/cli": [
    "cli",
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
    "errors",
    "text",
    "queue",
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
    ...Object.entries(layers).map(([place, allowed]): Override => ({
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
