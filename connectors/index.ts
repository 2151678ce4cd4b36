import { existsSync } from "node:fs";
import { registerHooks } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { FastifyInstance } from "fastify";
import type { BuiltInConnector, BuiltInTargetConnector, Connector, InboxHost, TargetConnector } from "#connector.ts";
import { InputError, messageOf, placeOf } from "#errors.ts";
import type { TableReader } from "#principals/lookup.ts";

/** The connectors that come with Rollcall. */
export const connectors: readonly BuiltInConnector[] = [
  {
    name: "ldap",
    title: "LDAP: OpenLDAP, Active Directory and others",
    load: async () => (await import("./ldap/index.ts")).default,
  },
  { name: "csv", title: "CSV and Excel files", load: async () => (await import("./csv/index.ts")).default },
  { name: "scim", title: "SCIM 2.0: a server", load: async () => (await import("./scim/index.ts")).default },
  { name: "okta", title: "Okta", load: async () => (await import("./okta/index.ts")).default },
  {
    name: "http",
    title: "HTTP: any service that lists people in JSON or CSV",
    load: async () => (await import("./http/index.ts")).default,
  },
  {
    name: "sql",
    title: "SQL: PostgreSQL, MySQL, MariaDB, SQLite",
    load: async () => (await import("./sql/index.ts")).default,
  },
  { name: "google", title: "Google Workspace", load: async () => (await import("./google/index.ts")).default },
  {
    name: "entra",
    title: "Microsoft Entra ID",
    load: async () => (await import("./entra/index.ts")).default,
  },
];

/** The routes by which providers push. */
export const loadInboxRoutes: () => Promise<(app: FastifyInstance, host: InboxHost) => void> = async () =>
  (await import("./scim/inbox/routes.ts")).addInboxRoutes;
/** The connectors of targets that come with Rollcall, besides the service. */
export const targetConnectors: readonly BuiltInTargetConnector[] = [
  { name: "scim", load: async () => (await import("./scim/target/index.ts")).default },
];

/** Reads a table that rules look values up in. */
export const readTable: TableReader = async (file, folder) => {
  const { readTable } = await import("./csv/table.ts");
  return readTable(file, folder, AbortSignal.timeout(longestTable));
};

/** How long reading a table may take, in milliseconds. */
const longestTable = 60_000;

/**
 * A connector of the user's own: the default export of the module at `path`, which is relative to `folder`.
 * @throws {InputError} when there is no such module, it cannot be loaded, or it is not a connector
 */
export async function loadConnector(path: string, folder: string): Promise<Connector> {
  return (await loadModule(path, folder, "a connector", sourceShape)) as Connector;
}

/** As `loadConnector`, of a target. */
export async function loadTargetConnector(path: string, folder: string): Promise<TargetConnector> {
  return (await loadModule(path, folder, "a connector of a target", targetShape)) as TargetConnector;
}

async function loadModule(path: string, folder: string, what: string, shape: Shape): Promise<unknown> {
  const file = resolve(folder, path);
  if (!existsSync(file)) {
    throw new InputError(`${path} does not exist; it is relative to the configuration's folder and has its extension`);
  }
  offerLibrary();
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (error) {
    const place = placeOf(error);
    throw new InputError(
      `${path} fails to load: ${messageOf(error)}${place === "" ? "" : `, at ${place}`}${adviceOn(error)}`,
      { cause: error },
    );
  }
  const connector = module["default"];
  if (connector === undefined) {
    throw new InputError(`${path} has no default export; a connector's module ends with \`export default\` of it`);
  }
  const problems = shapeProblems(connector, shape);
  if (problems.length === 0) return connector;
  throw new InputError(`the default export of ${path} is not ${what}: ${problems.join(", ")}`, { problems });
}

function adviceOn(error: unknown): string {
  if (!messageOf(error).includes("outside a module")) return "";
  return '; give the package.json beside it "type": "module", or the file the extension .mjs or .mts';
}

/** What a connector's module may import wherever it lies. */
const offered = {
  "rollcall/connector": import.meta.resolve("#library/connector.ts"),
  "rollcall/client": import.meta.resolve("#library/client.ts"),
};
let isOffered = false;

/** With the program's own files a connector has the classes of its errors. An installed `zod` beside it comes first. */
function offerLibrary(): void {
  if (isOffered) return;
  isOffered = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier in offered) return next(offered[specifier as keyof typeof offered], context);
      try {
        return next(specifier, context);
      } catch (error) {
        if (specifier !== "zod") throw error;
        return next(import.meta.resolve("zod"), context);
      }
    },
  });
}

/** The names of the functions that a connector has. */
type Shape = readonly string[];
const sourceShape: Shape = ["open"];
const targetShape: Shape = ["declare", "place", "open"];

function shapeProblems(value: unknown, functions: Shape): readonly string[] {
  if (typeof value !== "object" || value === null) return ["it is not an object"];
  const { name, options, ...rest } = value as Record<string, unknown>;
  return [
    typeof name === "string" && name !== "" ? "" : "`name` is not a string",
    isSchema(options) ? "" : "`options` is not a zod schema",
    ...functions.map((each) => (typeof rest[each] === "function" ? "" : `\`${each}\` is not a function`)),
  ].filter((problem) => problem !== "");
}

function isSchema(value: unknown): boolean {
  const schema = value as { safeParseAsync?: unknown } | null | undefined;
  return typeof schema?.safeParseAsync === "function";
}
