import { z } from "zod";
import { checks } from "#files/settle.ts";
import {
  allowPlainHttp,
  auth,
  authorities,
  clientCertificate,
  minimums,
  optionalAttributesLike,
  plainProblems,
  serviceUrl,
  timeouts,
} from "#http/directory/options.ts";
import { addProblem, count, proxy, text } from "#values.ts";
import { inbox } from "./inbox/options.ts";

const url = serviceUrl("https://idp.example.com/scim/v2");

const paging = z
  .strictObject({
    by: z
      .enum(["auto", "index", "cursor"], { error: "expected auto, index or cursor" })
      .default("auto")
      .describe(
        "index: startIndex. cursor: RFC 9865. auto: what the server announces, index if nothing. Default auto.",
      ),
    count: count(2)
      .default(500)
      .describe("How many resources to request at a time; the server may send fewer. Default 500."),
    overlap: z
      .boolean()
      .default(true)
      .describe(
        "With index: every page starts with the last resource of the page before, which proves that nothing moved in between. Default true.",
      ),
    totals: z
      .enum(["exact", "estimated"], { error: "expected exact or estimated" })
      .default("exact")
      .describe(
        "With cursor: estimated accepts more resources than totalResults and up to a tenth fewer, or any number from minUsers (minGroups) on where that is written. Default exact.",
      ),
    attempts: count(1)
      .default(3)
      .describe("How often to read a list that changes meanwhile or does not add up. Default 3."),
  })
  .prefault({})
  .describe("How long lists are read.");

const filter = text('a filter, such as userType eq "Employee"').optional().describe("A SCIM filter. Default: all.");

const optionalAttributes = optionalAttributesLike("mail");

const users = z
  .strictObject({
    path: text("a path").default("Users").describe("Below the url. Default Users."),
    filter,
    optionalAttributes,
  })
  .prefault({})
  .describe("Which users to read.");

const memberPages = z
  .strictObject({
    startIndex: text("a parameter").default("startIndex").describe("The parameter for the first member, from 1."),
    count: text("a parameter").default("count").describe("The parameter for how many."),
    size: count(1).default(1_000).describe("How many to request. Default 1000."),
  })
  .describe("How the server pages the members of one group. Default: it does not.");

const groups = z
  .union(
    [
      z.literal(false),
      z.strictObject({
        path: text("a path").default("Groups").describe("Below the url. Default Groups."),
        filter,
        optionalAttributes,
        members: z
          .enum(["list", "each"], { error: "expected list or each" })
          .default("list")
          .describe(
            "list: members come with the list of groups. each: every group is requested on its own. Default list.",
          ),
        memberLimit: count(1)
          .optional()
          .describe(
            "The most members of a group that the server includes in a list: a group with that many is requested on its own. Default: no limit.",
          ),
        memberPages: memberPages.optional(),
      }),
    ],
    { error: "expected false, or a mapping with path, filter, members" },
  )
  .prefault({})
  .describe("Which groups to read; false: none.");

const file = text("a path");
const several = z.union([file, z.array(file).min(1, "expected at least one")], {
  error: "expected a path, a pattern or a list of them",
});

const files = z
  .strictObject({
    users: several.optional().describe("Files of users: a path, a pattern like users-*.json, or a list."),
    groups: several.optional().describe("Files of groups."),
    mixed: several.optional().describe("Files of both; meta.resourceType or schemas says which."),
    ...checks,
  })
  .refine(({ users, groups, mixed }) => users !== undefined || groups !== undefined || mixed !== undefined, {
    error: "expected users, groups or mixed",
  })
  .describe("Read files instead of a server: lists, arrays or one resource per line, also compressed with gzip.");

/** Where Microsoft Entra ID serves SCIM, in each of its clouds. */
const entraUrl =
  /^https:\/\/(?:(?:dod-)?graph\.microsoft\.(?:com|us)|microsoftgraph\.chinacloudapi\.cn)\/rp\/scim\/*$/i;

/** The options beside `connector: scim`. */
export const options = z
  .strictObject({
    url: url.optional().describe("The URL above the server's /Users and /Groups: https://idp.example.com/scim/v2."),
    files: files.optional(),
    inbox: inbox.optional(),
    auth: auth.optional(),
    ca: authorities,
    certificate: clientCertificate.optional(),
    proxy: proxy.optional(),
    allowPlainHttp,
    users,
    groups,
    paging,
    memberships: z
      .enum(["members", "groups", "both"], { error: "expected members, groups or both" })
      .default("both")
      .describe(
        "Where memberships come from: members of groups, groups of users, or both; with both, groups of users count only if marked as direct. Default both.",
      ),
    attributes: z
      .union([z.enum(["auto", "all"]), z.array(text("the name of an attribute")).min(1)], {
        error: "expected auto, all or a list of attributes",
      })
      .default("auto")
      .describe(
        "Which attributes to request: auto leaves out large ones that no rule uses, all requests everything, a list just these. Default auto.",
      ),
    timeouts,
    ...minimums,
  })
  .superRefine((value, context) => {
    if ([value.url, value.files, value.inbox].filter((way) => way !== undefined).length !== 1)
      addProblem(context, ["url"], "expected one of url, files and inbox");
    const otherWay = value.files === undefined ? (value.inbox === undefined ? undefined : "an inbox") : "files";
    for (const key of ["auth", "proxy"] as const)
      if (otherWay !== undefined && value[key] !== undefined)
        addProblem(context, [key], `is for a server, not for ${otherWay}`);
    if (value.inbox !== undefined && (value.users.filter ?? (value.groups && value.groups.filter)) !== undefined)
      addProblem(
        context,
        ["inbox"],
        "has everything that was pushed: leave records out by a rule `include`, not by a filter",
      );
    if (value.groups !== false && value.url !== undefined && entraUrl.test(value.url))
      addProblem(
        context,
        ["groups"],
        "Entra's SCIM API has no members in its groups, so nobody would be in one; write groups: false, or read the tenant with connector: entra",
      );
    for (const [option, message] of plainProblems(value)) addProblem(context, [option], message);
  });

export type Options = z.infer<typeof options>;
export type GroupsOptions = Exclude<Options["groups"], false>;
