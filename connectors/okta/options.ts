import { z } from "zod";
import {
  authorities,
  isPlain,
  minimums,
  optionalAttributesLike,
  serviceUrl,
  timeouts,
} from "#http/directory/options.ts";
import { addProblem, count, path, proxy, text } from "#values.ts";

/** Every status that a user can have. */
export const statuses = [
  "STAGED",
  "PROVISIONED",
  "ACTIVE",
  "RECOVERY",
  "PASSWORD_EXPIRED",
  "LOCKED_OUT",
  "SUSPENDED",
  "DEPROVISIONED",
] as const;

const search = text('a search, such as profile.department eq "Sales"').optional();

const optionalAttributes = optionalAttributesLike("mobilePhone");

const users = z
  .strictObject({
    statuses: z
      .array(z.enum(statuses, { error: `expected ${statuses.join(", ")}` }))
      .min(1, "expected at least one")
      .default(statuses.filter((status) => status !== "DEPROVISIONED"))
      .describe("Which users to read, by status. Default: all but DEPROVISIONED."),
    search: search.describe("Only users that this search of Okta finds. Default: all."),
    proof: z
      .enum(["everyone", "twoEqualReads"], { error: "expected everyone or twoEqualReads" })
      .optional()
      .describe(
        "What proves that no user is missing. everyone: the group Everyone counts as many. twoEqualReads: a second search in reverse order finds the same. Default everyone; with search, twoEqualReads.",
      ),
    optionalAttributes,
  })
  .prefault({})
  .describe("Which users to read.");

const groups = z
  .union(
    [
      z.literal(false),
      z.strictObject({
        types: z
          .array(
            z.enum(["OKTA_GROUP", "APP_GROUP", "BUILT_IN"], { error: "expected OKTA_GROUP, APP_GROUP or BUILT_IN" }),
          )
          .min(1, "expected at least one")
          .default(["OKTA_GROUP", "APP_GROUP"])
          .describe(
            "Groups made in Okta, groups imported from applications and directories, and Okta's own such as Everyone. Default [OKTA_GROUP, APP_GROUP].",
          ),
        search: search.describe('Only groups that this search of Okta finds: profile.name sw "app-". Default: all.'),
        optionalAttributes,
      }),
    ],
    { error: "expected false, or a mapping with types, search" },
  )
  .prefault({})
  .describe("Which groups to read; false: none.");

const privateKey = z
  .strictObject({
    file: path.describe("The private key: PEM without a passphrase, or a JWK. Read for every token."),
    kid: text("the id of the key")
      .optional()
      .describe("The id of the key as the app shows it, for PEM. Default: that of a JWK."),
    algorithm: z
      .enum(["RS256", "PS256", "ES256"], { error: "expected RS256, PS256 or ES256" })
      .optional()
      .describe("How to sign. Default: ES256 with an elliptic key, otherwise RS256."),
  })
  .describe("The key of which the service app has the public half.");

/** The address of a server, which is not one of its pages. */
const address = (example: string) =>
  serviceUrl(example)
    .refine((value) => (URL.parse(value)?.pathname ?? "/") === "/", {
      error: `expected an address without a path, like ${example}`,
      abort: true,
    })
    .refine((value) => !isPlain(value), { error: "http:// would send the credentials unencrypted; use https://" });

/** The options beside `connector: okta`. */
export const options = z
  .strictObject({
    url: address("https://example.okta.com").describe("The address of the organization."),
    token: text("an API token")
      .regex(/^[\x21-\x7e]+$/, { error: "expected an API token, without spaces or line ends" })
      .optional()
      .describe("An API token (SSWS); better ${env:NAME} or ${file:/path}."),
    clientId: text("a client id")
      .optional()
      .describe("The client id of a service app (API Services), instead of a token."),
    privateKey: privateKey.optional(),
    dpop: z
      .boolean()
      .default(false)
      .describe(
        "The app requires proof of possession (DPoP): each request is signed with a key of this process. Default false.",
      ),
    origins: z
      .array(address("https://login.example.com"))
      .default([])
      .describe(
        "Further addresses of the same organization, where links to next pages may lead. Default: its address with and without -admin.",
      ),
    ca: authorities,
    proxy: proxy.optional(),
    users,
    groups,
    attributes: z
      .enum(["auto", "all"], { error: "expected auto or all" })
      .default("auto")
      .describe("Which attributes of users to request: auto, those that rules use; all, whole users. Default auto."),
    pageSize: count(1)
      .max(200, { error: "expected 200 or less, as Okta advises" })
      .default(200)
      .describe("How many users or groups to request at a time. Default 200."),
    timeouts,
    ...minimums,
  })
  .superRefine(({ token, clientId, privateKey, dpop, users }, context) => {
    const isApp = clientId !== undefined || privateKey !== undefined;
    if (isApp === (token !== undefined))
      addProblem(context, ["token"], "expected either token, or clientId and privateKey");
    else if (isApp && clientId === undefined)
      addProblem(context, ["clientId"], "expected the client id of the service app");
    else if (isApp && privateKey === undefined)
      addProblem(context, ["privateKey"], "expected the key of the service app: { file: … }");
    if (dpop && token !== undefined)
      addProblem(context, ["dpop"], "is for a service app (clientId, privateKey), not for a token");
    if (users.search !== undefined && users.proof === "everyone")
      addProblem(context, ["users"], "proof: everyone counts all users, not those of a search; use twoEqualReads");
  });

export type Options = z.infer<typeof options>;
export type GroupsOptions = Exclude<Options["groups"], false>;
