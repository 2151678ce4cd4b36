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
  "src/connector.ts": ["principals"],
  "src/listening.ts": ["errors", "network"],
  "src/presence.ts": ["plan/durable"],
  "src/wire": [],
  "src/network": [],
  "src/principals": ["errors"],
  "src/reading": ["errors"],
  "src/config": ["errors", "connector", "principals", "network"],
  "src/plan": ["principals", "errors"],
  "src/plan/render": ["plan"],
  "src/sync": ["sync/planning", "sync/ledger", "plan", "principals", "connector", "errors"],
  "src/sync/planning": ["sync/sync", "sync/ports", "plan", "principals", "connector", "errors"],
  "src/sync/ledger": ["plan", "errors"],
  "src/sync/kept": ["sync/planning", "sync/record", "plan", "principals", "errors"],
  "src/sync/journal": ["sync/kept", "sync/ledger", "sync/record", "sync/sync", "plan", "errors"],
  "src/sync/audit": ["sync/record", "plan", "errors"],
  "src/sync/coordinator": [
    "sync/audit",
    "sync/interruption",
    "sync/journal",
    "sync/kept",
    "sync/ledger",
    "sync/planning",
    "sync/record",
    "sync/run",
    "sync/sync",
    "plan",
    "errors",
  ],
  "src/sync/schedule": ["sync/coordinator", "sync/record", "errors"],
  "src/sync/explain": [
    "sync/coordinator",
    "sync/interruption",
    "sync/journal",
    "sync/kept",
    "sync/ledger",
    "sync/planning",
    "sync/ports",
    "sync/record",
    "sync/run",
    "sync/sync",
    "plan",
    "principals",
    "connector",
    "errors",
  ],
  "src/sync/notify": [
    "sync/coordinator",
    "sync/record",
    "plan",
    "errors",
    "network",
    // What every client of an HTTP server needs.
    "client/breakage",
    "client/connection",
    "client/repeat",
    "client/undici",
  ],
  "src/client": ["wire", "errors", "config/redact", "network"],
  "src/client/target.ts": ["wire", "errors", "config/redact", "sync/ports", "principals"],
  "src/service": ["wire", "plan", "principals", "errors", "listening", "service"],
  "src/service/session": ["wire", "plan", "principals", "errors"],
  "src/service/directory": ["wire", "plan", "principals", "errors", "service/queue"],
  "src/service/engine": ["wire", "plan", "principals", "errors"],
  "src/service/loads": ["wire", "plan", "principals", "errors", "service/engine", "service/hooks", "service/queue"],
  "src/service/pinboards": ["wire", "plan", "principals", "errors", "service/engine"],
  "src/exports": ["client", "plan", "errors"],
  "src/control": [
    "wire",
    "sync",
    "client",
    "exports",
    "config",
    "plan",
    "principals",
    "errors",
    "listening",
    "presence",
    "control",
    "network",
  ],
  "src/cli": ["cli", "control", "sync", "client", "config", "connector", "plan", "errors"],
  "src/cli/audit": ["cli/context", "cli/output", "sync", "config", "plan"],
  "src/cli/check": [
    "cli/context",
    "cli/open",
    "cli/output",
    "sync",
    "config",
    "connector",
    "plan",
    "principals",
    "errors",
  ],
  "src/cli/coordinator": [
    "cli/actor",
    "cli/context",
    "cli/data",
    "cli/export",
    "cli/open",
    "control",
    "sync",
    "config",
    "errors",
  ],
  "src/cli/daemon": [
    "cli/actor",
    "cli/composition",
    "cli/context",
    "cli/coordinator",
    "cli/data",
    "cli/export",
    "cli/output",
    "control",
    "sync",
    "config",
    "plan",
    "errors",
  ],
  "src/cli/data": ["cli/actor", "cli/composition", "cli/context", "sync", "config", "plan", "presence", "errors"],
  "src/cli/export": ["cli/context", "cli/open", "cli/output", "sync", "exports", "config", "errors"],
  "src/cli/init": [
    "cli/composition",
    "cli/context",
    "cli/open",
    "cli/output",
    "client",
    "config",
    "connector",
    "plan",
    "principals",
    "errors",
  ],
  "src/cli/load": ["cli/context", "cli/numbers", "cli/open", "cli/output", "client", "plan", "errors"],
  "src/cli/look": [
    "cli/commands",
    "cli/context",
    "cli/moments",
    "cli/numbers",
    "cli/output",
    "cli/rows",
    "sync",
    "plan",
    "errors",
  ],
  "src/cli/open": ["cli/data", "cli/output", "sync", "client", "config", "principals", "errors"],
  "src/cli/run": [
    "cli/actor",
    "cli/context",
    "cli/coordinator",
    "cli/export",
    "cli/look",
    "cli/moments",
    "cli/open",
    "cli/output",
    "sync",
    "config",
    "plan",
    "errors",
  ],
  connectors: ["connector", "principals", "errors", "reading", "network"],
  "connectors/scim": [
    "connector",
    "principals",
    "errors",
    "reading",
    "network",
    // What every client of an HTTP server needs, whatever the server speaks.
    "client/breakage",
    "client/connection",
    "client/refusal",
    "client/repeat",
    "client/undici",
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
  const forbidden = modules.filter(
    (path) => !allowed.some((name) => path === `${name}.ts` || path.startsWith(`${name}/`)),
  );
  const below = place.startsWith("src/") ? "\\./.*/|" : "";
  return `^(?:\\.\\./|${below}#connectors/|#(?:${forbidden.map((path) => path.replaceAll(".", "\\.")).join("|")})$)`;
}

export default defineConfig({
  plugins: ["typescript", "unicorn", "oxc", "import", "promise", "node", "vitest"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  options: { typeAware: true },
  rules: {
    "import/no-cycle": "error",
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
