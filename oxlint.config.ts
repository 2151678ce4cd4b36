import { readdirSync } from "node:fs";
import { defineConfig } from "oxlint";
import type { OxlintConfig } from "oxlint";

type Override = NonNullable<OxlintConfig["overrides"]>[number];

/** Leaves: every module may import them, and they import only what is named here. */
const leaves: Record<string, readonly string[]> = {
  "input-bounds": [],
  commands: [],
  errors: ["redact"],
  heap: [],
  text: [],
  passwords: ["queue"],
  priority: [],
  queue: [],
  redact: [],
  roles: [],
  root: [],
  "row-options": ["values"],
  "row-scan": [],
  throttle: [],
  times: ["commands", "text"],
  values: ["text"],
};

/**
 * Who may import whom, besides the leaves: a folder of `src/`, or one file of it, and what it may name as
 * `#folder/file.ts`. `main.ts`, the composition root, has no row: it may import everything.
 */
const layers: Record<string, readonly string[]> = {
  "src/wire": [],
  "src/files": [],
  "src/duckdb": ["files"],
  "src/http": ["files/certificates", "files/disk", "wire/routes"],
  "src/postgres": ["files/certificates"],
  "src/principals": ["duckdb"],
  "src/connector.ts": ["principals", "state/inbox"],
  "src/completeness.ts": ["connector", "principals"],
  // What providers push is stored with the state; an inbox is handed the store.
  connectors: ["connector", "completeness", "principals", "files", "http", "state/inbox"],
  "src/plan": ["principals", "duckdb", "files"],
  "src/state": ["plan", "principals", "files", "duckdb", "postgres"],
  "src/sync": ["state", "plan", "principals", "duckdb", "files", "connector"],
  "src/notify": ["state", "sync", "plan", "files", "http"],
  "src/library": ["connector", "completeness", "client"],
  "src/client": ["wire", "http"],
  "src/client/target.ts": ["client", "wire", "http", "principals", "connector"],
  "src/exports": [
    "client",
    "plan",
    "principals/attributes",
    "principals/principal",
    "duckdb",
    "files/disk",
    "service/loads/load-format",
    "service/loads/split",
    "wire/loads",
  ],
  "src/service": ["wire", "plan", "principals", "duckdb", "postgres", "files", "http"],
  "src/config": [
    "connector",
    // What a module says can be configured of it.
    "plan/limits",
    "plan/limit-options",
    "plan/departure-options",
    "service/options",
    "postgres/options",
    "notify/options",
    // What checks the values.
    "principals/attributes",
    "principals/compile",
    "principals/credentials",
    "principals/expectations",
    "principals/lookup",
    "principals/principal",
    "principals/rules",
    "daemon/cron",
    "files/disk",
    "http/listening",
  ],
  "src/control": [
    "state",
    "sync",
    "notify",
    "client",
    "exports",
    "config",
    "plan",
    "wire",
    "http",
    "files",
    "service/host",
  ],
  "src/console": [
    "control",
    "daemon",
    "files/certificates",
    "files/unpack",
    "state",
    "sync",
    "client",
    "config",
    "plan",
    "wire",
    "http",
    "service/host",
  ],
  "src/daemon": [
    "state",
    "sync",
    "notify",
    "client",
    "exports",
    "config",
    "connector",
    "plan",
    "principals/attributes",
    "principals/compile",
    "principals/expectations",
    "principals/lookup",
    "duckdb",
    "postgres",
    "files",
    // The port by which it starts the service.
    "service/host",
  ],
  "src/cli": [
    "daemon",
    "console",
    "control",
    "state",
    "sync",
    "notify",
    "client",
    "exports",
    "config",
    "connector",
    "plan",
    "principals/compile",
    "principals/expectations",
    "principals/lookup",
    "duckdb",
    "postgres/database",
    "postgres/migrations",
    "postgres/options",
    "postgres/primary",
    "files",
    "http/listening",
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
  // A folder in a connector's own uses what is beside it; another connector, and the list of all, are out of reach.
  const above = place === "connectors" ? "(?:.*/|index\\.ts$)" : "";
  return `^(?:\\.\\./${above}|${below}#connectors/|#(?:${forbidden.map((path) => path.replaceAll(".", "\\.")).join("|")})$)`;
}

export default defineConfig({
  plugins: ["typescript", "unicorn", "oxc", "import", "promise", "node", "vitest"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  options: { typeAware: true },
  rules: {
    "import/no-cycle": ["error", { ignoreTypes: false }],
    // `fc.string()` and `cron.schedule()` read better than their bare names.
    "import/no-named-as-default-member": "off",
    "import/no-unassigned-import": "off",
    "no-await-in-loop": "off",
    "no-duplicate-imports": ["error", { allowSeparateTypeImports: true }],
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
    "typescript/unbound-method": "error",
    "unicorn/no-array-sort": "off",
    "unicorn/no-array-reverse": "off",
    "unicorn/require-post-message-target-origin": "off",
    "no-console": "error",
    eqeqeq: "error",
    "no-restricted-properties": [
      "error",
      ...["fetchChunk", "fetchAllChunks", "yieldRows"].map((property) => ({
        property,
        message: "A result that breaks off looks complete to it: use nextChunk of src/duckdb/chunk.ts",
      })),
    ],
    "no-var": "error",
    "prefer-const": "error",
  },
  overrides: [
    ...[
      ...Object.entries(leaves).map(([name, allowed]): [string, readonly string[]] => [`src/${name}.ts`, allowed]),
      ...Object.entries(layers).map(([place, allowed]): [string, readonly string[]] => [
        place,
        [...Object.keys(leaves), ...allowed],
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
    { files: ["src/duckdb/chunk.ts"], rules: { "no-restricted-properties": "off" } },
    {
      files: ["test/**/*.ts"],
      rules: {
        "no-console": "off",
        // What tests take apart are objects of functions.
        "typescript/unbound-method": "off",
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
