/** What a server takes, and what it does wrong. Written from what vendors document, not from the profiles. */
export interface Limits {
  /** The most resources of a list. */
  readonly largestPage: number;
  readonly pages: "index" | "cursor";
  /** Whoever does not ask for a cursor gets so many, and no more. 0: a cursor is given unasked. */
  readonly withoutCursor: number;
  /** Takes `excludedAttributes`. */
  readonly excludes: boolean;
  /** Where members of groups are shown. asked: of a single group, with `attributes=members`. */
  readonly shows: "everywhere" | "single" | "asked" | "nowhere";
  /** Lists of groups show so many members of each. */
  readonly listedMembers: number;
  /** Members are shown as `$ref` alone. */
  readonly references: boolean;
  readonly membersPerPatch: number;
  readonly removalsPerPatch: number;
  /** The most members of a group. */
  readonly largestGroup: number;
  readonly removal: "filter" | "list" | "either";
  /** One PATCH adds or removes members, and does nothing else beside it. */
  readonly membersAlone: boolean;
  /** Only a list of this name is seen in a PATCH. */
  readonly operations: "Operations" | "operations";
  /** A PATCH without a path has one attribute. */
  readonly pathlessOne: boolean;
  readonly singleValued: boolean;
  readonly answersPatch: 200 | 204;
  readonly patches: boolean;
  readonly versions: boolean;
  /** Attributes without which no user is created. */
  readonly required: readonly string[];
  /** 409 says why. */
  readonly scimTypes: boolean;
  /** DELETE of a user makes them inactive. */
  readonly deactivates: boolean;
  /** So many changes, then 429 until a second has passed. 0: no limit. */
  readonly burst: number;
  /** To remove who is no member is an error. */
  readonly strictRemoval: boolean;
  /** Keeps names and addresses in small letters. */
  readonly lowers: boolean;
  /** Keeps telephone numbers without blanks. */
  readonly trimsPhones: boolean;
  /** Never says whether a user is active. */
  readonly forgetsActive: boolean;
  /** Answers a change with success, and changes nothing. */
  readonly ignores: boolean;
  /** Creates, and answers without an id. */
  readonly hidesIds: boolean;
  /** Creates, and answers with nothing but where that is. */
  readonly answersByLocation: boolean;
}

const standard: Limits = {
  largestPage: 1_000,
  pages: "index",
  withoutCursor: 0,
  excludes: true,
  shows: "everywhere",
  listedMembers: Infinity,
  references: false,
  membersPerPatch: 10_000,
  removalsPerPatch: 10_000,
  largestGroup: Infinity,
  removal: "either",
  membersAlone: false,
  operations: "Operations",
  pathlessOne: false,
  singleValued: false,
  answersPatch: 200,
  patches: true,
  versions: false,
  required: [],
  scimTypes: true,
  deactivates: false,
  burst: 0,
  strictRemoval: false,
  lowers: false,
  trimsPhones: false,
  forgetsActive: false,
  ignores: false,
  hidesIds: false,
  answersByLocation: false,
};

/** The servers, by the profile that is for them. */
export const servers: Readonly<Record<string, Limits>> = {
  generic: { ...standard, versions: true, strictRemoval: true },
  aws: {
    ...standard,
    largestPage: 100,
    pages: "cursor",
    withoutCursor: 50,
    excludes: false,
    shows: "nowhere",
    membersPerPatch: 100,
    removalsPerPatch: 100,
    removal: "list",
    pathlessOne: true,
    singleValued: true,
    answersPatch: 204,
    required: ["name", "displayName"],
    scimTypes: false,
  },
  entra: {
    ...standard,
    largestPage: 100,
    pages: "cursor",
    shows: "nowhere",
    membersPerPatch: 20,
    removalsPerPatch: 1,
    removal: "filter",
    membersAlone: true,
    operations: "operations",
    answersPatch: 204,
  },
  slack: { ...standard, deactivates: true, burst: 20 },
  github: { ...standard, largestPage: 100 },
  snowflake: { ...standard, shows: "single", singleValued: true },
  databricks: { ...standard, largestPage: 100, membersPerPatch: 100 },
  grafana: { ...standard, largestPage: 100, answersPatch: 204, scimTypes: false },
  keycloak: { ...standard, largestPage: 100 },
};
