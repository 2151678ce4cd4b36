import { z } from "zod";
import {
  authorities,
  isPlain,
  minimums,
  optionalAttributesLike,
  serviceUrl,
  timeouts,
} from "#http/directory/options.ts";
import { addProblem, path, proxy, text, wholeNumber } from "#values.ts";

const optionalAttributes = optionalAttributesLike("employeeId");

const attributes = z
  .array(text("the name of a property, such as employeeId"))
  .min(1, "expected at least one")
  .optional()
  .describe("Properties of Graph to request besides those that rules read.");

/** Where a national cloud gives tokens, and where its Graph is. */
export const clouds = {
  global: { login: "https://login.microsoftonline.com", graph: "https://graph.microsoft.com" },
  usgov: { login: "https://login.microsoftonline.us", graph: "https://graph.microsoft.us" },
  dod: { login: "https://login.microsoftonline.us", graph: "https://dod-graph.microsoft.us" },
  china: { login: "https://login.partner.microsoftonline.cn", graph: "https://microsoftgraph.chinacloudapi.cn" },
} as const;

const cloud = z
  .union(
    [
      z.enum(["global", "usgov", "dod", "china"]),
      z.strictObject({
        login: serviceUrl(clouds.global.login).describe("Where tokens are."),
        graph: serviceUrl(clouds.global.graph).describe("Where Graph is."),
      }),
    ],
    { error: "expected global, usgov (GCC High), dod, china, or { login, graph } with two URLs" },
  )
  .default("global")
  .describe(
    "The cloud that the tenant is in: global (with GCC), usgov (GCC High), dod, china (21Vianet); or the URLs of one. Default global.",
  );

const filter = (example: string) => text(`a filter, such as ${example}`).optional();

const users = z
  .strictObject({
    filter: filter("accountEnabled eq true").describe("A filter of Graph (OData). Default: all."),
    guests: z
      .enum(["include", "exclude"], { error: "expected include or exclude" })
      .default("include")
      .describe("Whether users of other tenants (userType Guest) are read. Default include."),
    attributes,
    optionalAttributes,
  })
  .prefault({})
  .describe("Which users to read.");

const groups = z
  .union(
    [
      z.literal(false),
      z.strictObject({
        filter: filter("startswith(displayName,'app-')").describe(
          "A filter of Graph (OData). Members of groups that it leaves out count as members of the groups around them. Default: all.",
        ),
        only: z
          .array(z.guid({ error: "expected the object id of a group, like 9a7b3c11-58c1-4a5e-8f39-c1d2e3f4a5b6" }))
          .min(1, "expected at least one")
          .optional()
          .describe("Only the groups with these object ids; each must exist. Default: all."),
        hiddenMembership: z
          .enum(["include", "exclude"], { error: "expected include or exclude" })
          .default("include")
          .describe(
            "Groups whose membership is hidden: include needs the permission Member.Read.Hidden, exclude leaves these groups out. Default include.",
          ),
        attributes,
        optionalAttributes,
      }),
    ],
    { error: "expected false, or a mapping with filter, only, hiddenMembership, attributes" },
  )
  .prefault({})
  .describe("Which groups to read; false: none.");

/** The options beside `connector: entra`. */
export const options = z
  .strictObject({
    tenant: text("a tenant: its id, or a domain like contoso.onmicrosoft.com")
      .regex(/^[\w.-]+$/, { error: "expected the id of a tenant, or a domain like contoso.onmicrosoft.com" })
      .describe("The tenant: its id (directory id), or one of its domains."),
    clientId: text("the id of an app registration").describe("The app registration's application (client) id."),
    clientSecret: text("a secret").optional().describe("Its client secret; better ${env:NAME} or ${file:/path}."),
    certificate: z
      .strictObject({
        file: path.describe("The certificate that the app registration has (PEM)."),
        key: path.describe("Its private key (PEM, RSA, without a passphrase)."),
      })
      .optional()
      .describe("Proves the app's identity by a certificate instead of a secret."),
    federatedToken: z
      .strictObject({ file: path.describe("The file, which is read for every token.") })
      .optional()
      .describe("A token of another issuer that the app registration trusts (workload identity federation)."),
    cloud,
    ca: authorities,
    proxy: proxy.optional(),
    users,
    groups,
    concurrency: wholeNumber(1, 32).default(8).describe("How many requests to make at a time. Default 8."),
    timeouts,
    ...minimums,
  })
  .superRefine(({ clientSecret, certificate, federatedToken, cloud, groups }, context) => {
    const ways = [clientSecret, certificate, federatedToken].filter((way) => way !== undefined).length;
    if (ways !== 1)
      addProblem(context, ["clientSecret"], "expected one of clientSecret, certificate and federatedToken");
    if (groups !== false && groups.filter !== undefined && groups.only !== undefined)
      addProblem(context, ["groups"], "expected filter or only, not both");
    if (typeof cloud === "object" && (isPlain(cloud.login) || isPlain(cloud.graph)))
      addProblem(context, ["cloud"], "http:// would send tokens and secrets unencrypted; use https://");
  });

export type Options = z.infer<typeof options>;
export type GroupsOptions = Exclude<Options["groups"], false>;
