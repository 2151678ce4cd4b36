import type { Connector } from "#connector.ts";
import csv from "./csv/index.ts";
import ldap from "./ldap/index.ts";
import scim from "./scim/index.ts";

/** The connectors that come with Rollcall. */
export const connectors: readonly Connector[] = [csv, ldap, scim];
