/**
 * What a SCIM server takes beyond, or short of, the standard. Data, not code: a configuration may hold one of its own.
 */
export interface Profile {
  /** How lists are paged. auto: what the server announces. */
  readonly paging: "auto" | "index" | "cursor";
  /** The most resources to ask for at a time. */
  readonly pageSize: number;
  /**
   * Where the members of a group are read. list: with the list of groups. each: every group on its own. auto: with the
   * list, and on its own where the list has no member of a group. hidden: the server does not show them.
   */
  readonly members: "list" | "each" | "auto" | "hidden";
  /** auto: PATCH, unless the server announces that it has none. */
  readonly update: "auto" | "patch" | "put";
  /** Whether each operation of a PATCH has a path. false: one operation holds all values. */
  readonly paths: boolean;
  /** How a PATCH is written. lower: `operations`, for servers that tell cases apart. */
  readonly operations: "Operations" | "operations";
  /** The most members that one PATCH adds. */
  readonly membersPerPatch: number;
  /** The most members that one PATCH removes. */
  readonly removalsPerPatch: number;
  /** How a member is removed. filter: `members[value eq "id"]`. list: `members` with a list of values. */
  readonly removal: "filter" | "list";
  /** Whether one PATCH may add and remove members. */
  readonly mixes: boolean;
  /** Whether a user may have several e-mail addresses, telephone numbers and the like. */
  readonly multiValued: boolean;
  /** Whether groups may be members of groups. */
  readonly nestsGroups: boolean;
  /** Whether a DELETE makes the object go away. */
  readonly deletes: { readonly user: boolean; readonly group: boolean };
  /** Whether an object keeps its id under another name. */
  readonly renames: { readonly user: boolean; readonly group: boolean };
  /** How many requests run at a time. */
  readonly concurrency: number;
  /** How many changes the server takes in a minute; 0: as many as come. */
  readonly perMinute: number;
  /** Attributes that the server does not have, by the names that rules use. */
  readonly lacks: readonly string[];
  /** Whether an attribute that is missing in /Schemas is an error. */
  readonly trustsSchemas: boolean;
}

/** A server that follows the standard. As many members at a time as any server with a known limit but Entra ID's takes. */
const generic: Profile = {
  paging: "auto",
  pageSize: 200,
  members: "auto",
  update: "auto",
  paths: true,
  operations: "Operations",
  membersPerPatch: 100,
  removalsPerPatch: 100,
  removal: "filter",
  mixes: true,
  multiValued: true,
  nestsGroups: false,
  deletes: { user: true, group: true },
  renames: { user: true, group: true },
  concurrency: 4,
  perMinute: 0,
  lacks: [],
  trustsSchemas: true,
};

/**
 * The profiles by name. "Documented" is the vendor's documentation, "reported" are public issues of other clients, and
 * "assumed" is neither. None has been run against the vendor's service.
 */
export const profiles = {
  generic,
  /**
   * AWS IAM Identity Center. Documented: lists by cursor, at most 100 resources; lists and single groups without members;
   * one e-mail address, telephone number and address; at most 100 changes of members in a PATCH; "remove all members" is
   * refused; PATCH without a path for one attribute. Reported: 409 without a reason. Assumed: members are removed by a
   * list of values; `/Schemas` does not have everything that is taken.
   */
  aws: {
    ...generic,
    paging: "cursor",
    pageSize: 100,
    members: "hidden",
    removal: "list",
    mixes: false,
    multiValued: false,
    concurrency: 2,
    trustsSchemas: false,
  },
  /**
   * Microsoft Entra ID (`graph.microsoft.com/rp/scim`). Documented: `operations` in lower case; at most 20 members are
   * added at a time, with nothing else in the request; one is removed at a time; pages by cursor only; no members in
   * groups that are read.
   */
  entra: {
    ...generic,
    paging: "cursor",
    pageSize: 100,
    members: "hidden",
    operations: "operations",
    membersPerPatch: 20,
    removalsPerPatch: 1,
    mixes: false,
  },
  /**
   * Slack. Documented: 180 changes of users in a minute, for all SCIM clients of an organisation together; after that 429
   * with Retry-After. Assumed: DELETE deactivates a user, so it deletes none.
   */
  slack: { ...generic, pageSize: 100, perMinute: 150, concurrency: 2, deletes: { user: false, group: true } },
  /**
   * GitHub Enterprise Managed Users, and Enterprise Server from 3.17. Documented: paths with filters, such as
   * `emails[type eq "work"]`, are refused. Assumed: those of members are taken; at most 100 resources in a list; about 100
   * requests in a minute.
   */
  github: { ...generic, pageSize: 100, concurrency: 1, perMinute: 90 },
  /**
   * Snowflake. Documented: groups are roles; one e-mail address and telephone number; only objects of the provisioner's
   * role change. Assumed: members are shown with each group.
   */
  snowflake: { ...generic, pageSize: 100, members: "each", multiValued: false },
  /** Databricks. Documented: groups may be in groups. */
  databricks: { ...generic, pageSize: 100, nestsGroups: true },
  /** Grafana. Documented: externalId must be the user's id in the SAML assertion. Assumed: groups are teams. */
  grafana: { ...generic, pageSize: 100 },
  /** Keycloak, whose SCIM is a preview. Assumed: it follows the standard. */
  keycloak: { ...generic, pageSize: 100 },
} as const satisfies Readonly<Record<string, Profile>>;

export type ProfileName = keyof typeof profiles;
