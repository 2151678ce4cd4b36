import { coreSchemas, enterprise } from "../schema.ts";
import type { Resource } from "../schema.ts";

/** What an inbox says of itself (RFC 7643, 5 to 7). */

/** The most resources of one page, and how many there are if a client does not say. */
export const pages = { most: 500, usual: 100 } as const;

export function serviceProviderConfig(base: string): Resource {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: pages.most },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: true },
    pagination: {
      cursor: true,
      index: true,
      defaultPaginationMethod: "index",
      defaultPageSize: pages.usual,
      maxPageSize: pages.most,
    },
    authenticationSchemes: [
      { type: "oauthbearertoken", name: "Bearer token", description: "A token of this inbox", primary: true },
    ],
    meta: { resourceType: "ServiceProviderConfig", location: `${base}/ServiceProviderConfig` },
  };
}

export function resourceTypes(base: string): readonly Resource[] {
  const type = (id: string, endpoint: string, schema: string, extensions: readonly string[]): Resource => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
    id,
    name: id,
    endpoint,
    schema,
    schemaExtensions: extensions.map((extension) => ({ schema: extension, required: false })),
    meta: { resourceType: "ResourceType", location: `${base}/ResourceTypes/${id}` },
  });
  return [type("User", "/Users", coreSchemas.user, [enterprise]), type("Group", "/Groups", coreSchemas.group, [])];
}

interface AttributeOptions {
  readonly type?: "string" | "boolean" | "complex" | "reference" | undefined;
  readonly multiValued?: boolean | undefined;
  readonly required?: boolean | undefined;
  readonly caseExact?: boolean | undefined;
  readonly mutability?: "readWrite" | "readOnly" | undefined;
  readonly uniqueness?: "none" | "server" | undefined;
  readonly subAttributes?: readonly Resource[] | undefined;
}

function attribute(name: string, options: AttributeOptions = {}): Resource {
  const { type = "string", multiValued = false, required = false, caseExact = false, subAttributes } = options;
  const { mutability = "readWrite", uniqueness = "none" } = options;
  const described = { name, type, multiValued, required, caseExact, mutability, returned: "default", uniqueness };
  return subAttributes === undefined ? described : { ...described, subAttributes };
}

const texts = (names: string): readonly Resource[] => names.split(" ").map((name) => attribute(name));
const list = (name: string, parts = "value display type"): Resource =>
  attribute(name, {
    type: "complex",
    multiValued: true,
    subAttributes: [...texts(parts), attribute("primary", { type: "boolean" })],
  });

const userAttributes: readonly Resource[] = [
  attribute("userName", { required: true, uniqueness: "server" }),
  attribute("name", {
    type: "complex",
    subAttributes: texts("formatted familyName givenName middleName honorificPrefix honorificSuffix"),
  }),
  ...texts("displayName nickName title userType preferredLanguage locale timezone"),
  attribute("profileUrl", { type: "reference" }),
  attribute("active", { type: "boolean" }),
  ...["emails", "phoneNumbers", "ims", "photos", "entitlements", "roles", "x509Certificates"].map((name) => list(name)),
  list("addresses", "formatted streetAddress locality region postalCode country type"),
  attribute("groups", {
    type: "complex",
    multiValued: true,
    mutability: "readOnly",
    subAttributes: texts("value $ref display"),
  }),
];

const groupAttributes: readonly Resource[] = [
  attribute("displayName", { required: true }),
  attribute("members", { type: "complex", multiValued: true, subAttributes: texts("value $ref display type") }),
];

const enterpriseAttributes: readonly Resource[] = [
  ...texts("employeeNumber costCenter organization division department"),
  attribute("manager", { type: "complex", subAttributes: texts("value $ref displayName") }),
];

export function schemas(base: string): readonly Resource[] {
  const schema = (
    id: string,
    [name, description]: readonly [string, string],
    attributes: readonly Resource[],
  ): Resource => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
    id,
    name,
    description,
    attributes,
    meta: { resourceType: "Schema", location: `${base}/Schemas/${id}` },
  });
  return [
    schema(coreSchemas.user, ["User", "User Account"], userAttributes),
    schema(coreSchemas.group, ["Group", "Group"], groupAttributes),
    schema(enterprise, ["EnterpriseUser", "Enterprise User"], enterpriseAttributes),
  ];
}
