import { z } from "zod";
import {
  allowPlainHttp,
  auth,
  authorities,
  clientCertificate,
  minimums,
  plainProblems,
  serviceUrl,
  timeouts,
} from "#http/directory/options.ts";
import { addProblem, count, proxy, refused, text } from "#values.ts";
import { namesOf, parsePath } from "./path.ts";
import type { Path } from "./path.ts";

const aPath = "a path such as name.first, emails[0].value, emails[type=work].value";

const path = text(aPath).transform((value, context): Path => {
  return parsePath(value) ?? refused(context, `expected ${aPath}`);
});

/** A path that leads through no list. */
const plainPath = path.refine((found) => namesOf(found) !== undefined, {
  error: "expected names with dots between them, such as data.employees",
});

const parameter = text("the name of a parameter, such as page");

/** Below the url, or absolute. */
const place = text("a URL, or a path below the url such as employees?status=active");

const perRecord = place.refine((value) => value.includes("{id}"), {
  error: "expected a path with {id}, such as groups/{id}/members",
});

const linkHeader = "header";

const next = z
  .union(
    [
      z.strictObject({
        link: z
          .union([z.literal(linkHeader), plainPath])
          .describe("The path of the next page's URL in an answer, or header: the Link header with rel=next."),
        always: z.boolean().default(false).describe("Every page has the field, the last one a null. Default false."),
      }),
      z.strictObject({
        cursor: plainPath.describe("The path of the cursor in an answer."),
        parameter: parameter.describe("The parameter that takes it to the next page."),
        always: z.boolean().default(false).describe("Every page has the field, the last one a null. Default false."),
      }),
      z.strictObject({
        offset: parameter.describe("The parameter that says how many records to skip."),
        start: count(0).default(0).describe("Its value for the first page. Default 0."),
      }),
      z.strictObject({
        page: parameter.describe("The parameter for the number of the page."),
        start: count(0).default(1).describe("Its value for the first page. Default 1."),
      }),
    ],
    { error: "expected {link}, {cursor, parameter}, {offset} or {page}" },
  )
  .describe("Where the next page is. Offsets and page numbers end with an empty page. Default: one answer holds all.");

const proofs = [
  z.enum(["twoEqualReads", "end"], { error: "expected twoEqualReads or end" }),
  z.strictObject({ total: plainPath.describe("The path, in an answer, of how many records there are.") }),
  z.strictObject({
    count: place.describe("What answers how many records there are: asked before the first page and after the last."),
    at: plainPath.optional().describe("The path of the number. Default: the answer is the number."),
  }),
  z.strictObject({
    reversed: z
      .record(parameter, z.string())
      .describe("Parameters that give the same list in another order, for a second read."),
  }),
] as const;

const proofError = "expected twoEqualReads, end, {total}, {count} or {reversed}";

const proof = z
  .union(proofs, { error: proofError })
  .default("twoEqualReads")
  .describe(
    "What proves that the list is complete: a total, a count, or two reads with the same ids (twoEqualReads, or reversed with another order). end: nothing but its end; needs minUsers, minGroups or minMemberships. Default twoEqualReads.",
  );

const proofPerRecord = z
  .union([...proofs, z.strictObject({ expected: path.describe("The path, in the group, of how many there are.") })], {
    error: `${proofError.replace(" or ", ", ")} or {expected}`,
  })
  .default("twoEqualReads")
  .describe("What proves that the list is complete. expected: the group says how many. Default twoEqualReads.");

const content = {
  format: z
    .enum(["json", "csv"], { error: "expected json or csv" })
    .default("json")
    .describe("json: an array, an object with a list in it, or an object per line (NDJSON). Default json."),
  delimiter: z.string().length(1).default(",").describe('What separates the fields of CSV. Default ",".'),
  body: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("Sent as JSON by POST, for services that list what a search finds. Default: GET, without a body."),
  items: plainPath
    .optional()
    .describe("The path of the list in an answer. Default: the answer is the list, or has a record per line."),
  next: next.optional(),
  size: z
    .strictObject({
      parameter: parameter.describe("The parameter for how many records a page has."),
      count: count(1).describe("How many to request at a time; the server may send fewer."),
    })
    .optional()
    .describe("The size of pages. Default: as the server has it."),
};

const memberKind = z
  .union(
    [
      z.enum(["user", "group"]),
      z.strictObject({
        path: path.describe("The path of what says what the member is."),
        user: text("a value").default("user").describe("Its value for a user. Default user."),
        group: text("a value").default("group").describe("Its value for a group. Default group."),
      }),
    ],
    { error: "expected user, group or {path, user, group}" },
  )
  .optional()
  .describe("What the members are, or what says so. Default: a user with such a key, or else a group.");

const entries = {
  url: place.describe("The list: a path below the url, perhaps with parameters, or a URL of its own."),
  ...content,
  proof,
  id: path.describe("The path of what identifies a record permanently, even after a rename."),
  keys: z
    .array(path)
    .min(1, "expected at least one path")
    .optional()
    .describe("The paths of what other records refer to this one by. Default: the id."),
  attributes: z
    .record(z.string().min(1), path)
    .optional()
    .describe("Attribute: path. Default: every value is an attribute, under its path."),
  optionalAttributes: z
    .array(text("the name of an attribute"))
    .optional()
    .describe(
      "Attributes that rules name and that may be missing everywhere. Default: the read fails if ten or more had the attribute at the last good read, and none has it now.",
    ),
  memberOf: z
    .strictObject({ path: path.describe("The path of the references, one or several.") })
    .optional()
    .describe("Where a record lists the groups it is directly in, by their keys."),
  find: z
    .strictObject({
      url: perRecord.describe("One record: employees/{id}."),
      at: plainPath.optional().describe("The path of the record in the answer. Default: the answer is the record."),
      where: z
        .record(
          text(aPath).refine((value) => parsePath(value) !== undefined, { error: `expected ${aPath}` }),
          z.union([z.string(), z.number(), z.boolean()]),
        )
        .optional()
        .describe("Path: value. What a record must have to be in the list, such as status: active."),
    })
    .optional()
    .describe("How to look one record up before it is deleted. Default: that is not possible."),
};

const users = z.strictObject(entries).describe("The list of users.");

const groups = z
  .strictObject({
    ...entries,
    members: z
      .union(
        [
          z.strictObject({
            path: path.describe("The path of the references in the group, one or several."),
            kind: z.enum(["user", "group"]).optional().describe("What the members are."),
          }),
          z.strictObject({
            url: perRecord.describe("The members of one group: groups/{id}/members."),
            ...content,
            proof: proofPerRecord,
            id: path.describe("The path of the reference in a member: a key of the user or group."),
            kind: memberKind,
          }),
        ],
        { error: "expected {path} or {url, id}" },
      )
      .optional()
      .describe("Where the direct members are: in the group, or in a list of their own."),
    children: z
      .strictObject({
        url: perRecord.describe("The groups below one group: groups/{id}/children."),
        ...content,
        proof: proofPerRecord,
      })
      .optional()
      .describe("Groups below groups, which have to be asked for. They are like the groups of the list."),
  })
  .describe("The list of groups.");

const memberships = z
  .strictObject({
    url: place.describe("The list of pairs."),
    ...content,
    proof,
    group: path.describe("The path of the reference to the group, by one of its keys."),
    member: path.describe("The path of the reference to the direct member, by one of its keys."),
    kind: memberKind,
  })
  .describe("A list of pairs: a group and a direct member.");

/** The options beside `connector: http`. */
export const options = z
  .strictObject({
    url: serviceUrl("https://hr.example.com/api").describe("The address above the lists."),
    hosts: z
      .array(text("a host such as api.example.com"))
      .default([])
      .describe(
        "Further hosts, over HTTPS, that get the credentials too: of links, or of lists with a URL of their own.",
      ),
    auth: auth.optional(),
    headers: z
      .record(z.string().regex(/^[\w-]+$/, "expected the name of a header"), text("a value"))
      .optional()
      .describe("Headers of every request that are no secrets, such as accept."),
    ca: authorities,
    certificate: clientCertificate.optional(),
    proxy: proxy.optional(),
    allowPlainHttp,
    users,
    groups: groups.optional(),
    memberships: memberships.optional(),
    attempts: count(1)
      .default(2)
      .describe("How often to read a list that changes meanwhile or does not add up. Default 2."),
    concurrency: count(1)
      .max(32, "expected 32 or less")
      .default(4)
      .describe("How many requests run at a time. Default 4."),
    timeouts,
    ...minimums,
  })
  .superRefine((value, context) => {
    for (const [part, setting] of [
      ["users", "minUsers"],
      ["groups", "minGroups"],
      ["memberships", "minMemberships"],
    ] as const) {
      if (value[part]?.proof === "end" && (value[setting] ?? 0) === 0)
        addProblem(context, [part, "proof"], `end proves nothing by itself: set ${setting} to what there is at least`);
    }
    for (const [keys, url] of urlsIn({ users: value.users, groups: value.groups, memberships: value.memberships })) {
      const found = urlOf(value.url, url);
      const known = found !== undefined && originsOf(value).includes(found.origin);
      if (!known)
        addProblem(context, keys, "leads to another host: list it under hosts, if it may get the credentials");
    }
    for (const [option, message] of plainProblems(value)) addProblem(context, [option], message);
  });

/** The URL of what is below another one, or has one of its own; undefined: it is none. */
export function urlOf(base: string, place: string): URL | undefined {
  const relative = /^https?:/i.test(place) ? place : place.replace(/^\/+/, "");
  return URL.parse(relative, base.replace(/\/*$/, "/")) ?? undefined;
}

/** Where requests may go. */
export function originsOf({ url, hosts }: Pick<Options, "hosts" | "url">): readonly string[] {
  return [new URL(url).origin, ...hosts.flatMap((host) => URL.parse(`https://${host}`)?.origin ?? [])];
}

/** Every URL in the lists, with the keys that lead to it. */
function* urlsIn(
  value: object,
  keys: readonly string[] = [],
): Generator<readonly [keys: readonly string[], url: string]> {
  for (const [key, found] of Object.entries(value)) {
    if (typeof found === "string" && (key === "url" || key === "count")) yield [[...keys, key], found];
    else if (typeof found === "object" && found !== null) yield* urlsIn(found as object, [...keys, key]);
  }
}

export type Options = z.infer<typeof options>;
export type EntryOptions = z.infer<typeof users>;
export type GroupsOptions = z.infer<typeof groups>;
export type MembershipsOptions = z.infer<typeof memberships>;
export type MemberKind = z.infer<typeof memberKind>;
export type NextOptions = z.infer<typeof next>;
/** What all lists have. */
export type ListOptions = Pick<EntryOptions, "body" | "delimiter" | "format" | "items" | "next" | "size" | "url"> & {
  readonly proof: z.infer<typeof proofPerRecord>;
};
