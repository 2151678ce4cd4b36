import type { BuiltInConnector } from "#connector.ts";

/** The connectors that come with Rollcall. */
export const connectors: readonly BuiltInConnector[] = [
  { name: "csv", load: async () => (await import("./csv/index.ts")).default },
  { name: "ldap", load: async () => (await import("./ldap/index.ts")).default },
  { name: "scim", load: async () => (await import("./scim/index.ts")).default },
];
