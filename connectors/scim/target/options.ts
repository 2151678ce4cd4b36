import { z } from "zod";
import {
  auth,
  authorities,
  clientCertificate,
  plainProblems,
  serviceUrl,
  timeouts,
  token,
} from "#http/directory/options.ts";
import type { Auth } from "#http/directory/options.ts";
import { addProblem, count, proxy, text } from "#values.ts";
import { standardNames } from "./attributes.ts";
import { parsePath } from "./paths.ts";
import { profiles } from "./profiles.ts";
import type { Profile, ProfileName } from "./profiles.ts";

const names = Object.keys(profiles) as [ProfileName, ...ProfileName[]];
const choice = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, { error: `expected ${words.slice(0, -1).join(", ")} or ${words.at(-1)}` });
const flag = z.boolean({ error: "expected true or false" });
const perKind = z.strictObject({ user: flag.optional(), group: flag.optional() });

/** A profile of one's own: what differs from a known one. */
const ownProfile = z
  .strictObject({
    base: choice(names).default("generic").describe("The profile to start from. Default generic."),
    paging: choice(["auto", "index", "cursor"]).optional().describe("How lists are paged."),
    pageSize: count(2).optional().describe("The most resources to ask for at a time."),
    members: choice(["list", "each", "auto", "hidden"])
      .optional()
      .describe(
        "Where members are read: with the list of groups, of each group on its own, whichever has them, or nowhere.",
      ),
    update: choice(["auto", "patch", "put"]).optional().describe("How objects are changed."),
    paths: flag.optional().describe("Whether each operation of a PATCH has a path."),
    operations: choice(["Operations", "operations"]).optional().describe("The name of the list in a PATCH."),
    membersPerPatch: count(1).optional().describe("The most members that one PATCH adds."),
    removalsPerPatch: count(1).optional().describe("The most members that one PATCH removes."),
    removal: choice(["filter", "list"])
      .optional()
      .describe('How a member is removed: members[value eq "id"], or members with a list of values.'),
    mixes: flag.optional().describe("Whether one PATCH may add and remove members."),
    multiValued: flag.optional().describe("Whether a user may have several e-mail addresses and telephone numbers."),
    nestsGroups: flag.optional().describe("Whether groups may be members of groups."),
    deletes: perKind.optional().describe("Whether a DELETE makes a user (a group) go away."),
    renames: perKind.optional().describe("Whether a user (a group) keeps its id under another name."),
    concurrency: count(1).optional().describe("How many requests run at a time."),
    perMinute: count(0).optional().describe("How many changes the server takes in a minute; 0: as many as come."),
    lacks: z.array(text("the name of an attribute")).optional().describe("Attributes that the server does not have."),
    trustsSchemas: flag.optional().describe("Whether an attribute that is missing in /Schemas is an error."),
  })
  .describe("A profile of your own.");

/** As many as Rollcall has room for beside those of the standard. */
const mostOwn = 8;

const attributes = z
  .record(
    z.string().regex(/^[a-z][A-Za-z0-9]*(?:\.[a-z][A-Za-z0-9]*)*$/, {
      error: "expected a name of letters and digits that starts with a small letter, like costCode",
    }),
    z.strictObject({
      path: text("a path, such as nickName or urn:example:User:costCode")
        .refine((value) => parsePath(value) !== undefined, {
          error: 'expected a path, such as nickName, addresses[type eq "work"].locality or urn:example:User:costCode',
        })
        .describe("Where it is in the resource."),
      type: choice(["text", "boolean", "texts"]).default("text").describe("What it holds. Default text."),
      kind: choice(["user", "group"]).default("user").describe("Who has it. Default user."),
      onlyAtCreation: flag
        .default(false)
        .describe("Given to new objects; after that the target's own value stays. Default false."),
    }),
  )
  .superRefine((value, context) => {
    const own = Object.keys(value);
    for (const name of own)
      if (standardNames.has(name))
        addProblem(context, [name], "is an attribute of every SCIM target; choose another name");
    if (own.length > mostOwn) addProblem(context, [], `${own.length} attributes; expected at most ${mostOwn}`);
  })
  .prefault({})
  .describe("Attributes beyond the standard's, by the names that rules use.");

/** The options beside `connector: scim` of a target. */
export const options = z
  .strictObject({
    url: serviceUrl("https://app.example.com/scim/v2").describe(
      "The URL above the server's /Users and /Groups: https://app.example.com/scim/v2.",
    ),
    token: token.optional().describe("The token that the application gave you; better ${env:NAME} or ${file:/path}."),
    auth: auth.optional(),
    profile: z
      .union([choice(names), ownProfile], { error: `expected ${names.join(", ")}, or a mapping with base` })
      .default("generic")
      .describe("What the server takes: the application's name, or a profile of your own. Default generic."),
    attributes,
    ca: authorities,
    certificate: clientCertificate.optional(),
    proxy: proxy.optional(),
    allowPlainHttp: flag
      .default(false)
      .describe("Allow http:// to other machines: anybody in between can read and change everything."),
    timeouts,
  })
  .superRefine((value, context) => {
    if (value.token !== undefined && value.auth !== undefined)
      addProblem(context, ["token"], "expected either token or auth");
    for (const [option, message] of plainProblems(value)) addProblem(context, [option], message);
  });

export type Options = z.infer<typeof options>;

/** How the client proves who it is. */
export function authOf({ token, auth: given }: Options): Auth | undefined {
  return token === undefined ? given : { bearer: token };
}

/** What the server takes. */
export function profileOf({ profile }: Options): Profile {
  if (typeof profile === "string") return profiles[profile];
  const { base, deletes, renames, ...rest } = profile;
  const from: Profile = profiles[base];
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return {
    ...from,
    ...given,
    deletes: { user: deletes?.user ?? from.deletes.user, group: deletes?.group ?? from.deletes.group },
    renames: { user: renames?.user ?? from.renames.user, group: renames?.group ?? from.renames.group },
  };
}

/** The name of the profile, for a person. */
export function profileName({ profile }: Options): string {
  return typeof profile === "string" ? profile : `of your own, from ${profile.base}`;
}
