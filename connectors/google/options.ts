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

const optionalAttributes = optionalAttributesLike("department");

const users = z.strictObject({ optionalAttributes }).prefault({}).describe("What is expected of users.");

const groups = z
  .union(
    [
      z.literal(false),
      z.strictObject({
        optionalAttributes,
        proof: z
          .enum(["count", "twoEqualReads"], { error: "expected count or twoEqualReads" })
          .default("count")
          .describe(
            "What proves that all members of a group came. count: Google's directMembersCount. twoEqualReads: they are read twice, for directories where that number is wrong. Default count.",
          ),
      }),
    ],
    { error: "expected false, or a mapping with proof, optionalAttributes" },
  )
  .prefault({})
  .describe("How groups are read; false: they are not, and need no scope.");

const endpoints = z
  .strictObject({
    token: serviceUrl("https://oauth2.googleapis.com/token")
      .default("https://oauth2.googleapis.com/token")
      .describe("Where tokens come from. Default: Google's."),
    directory: serviceUrl("https://admin.googleapis.com")
      .default("https://admin.googleapis.com")
      .describe("Where the Directory API is. Default: Google's."),
  })
  .prefault({})
  .superRefine((value, context) => {
    for (const name of ["token", "directory"] as const)
      if (isPlain(value[name])) addProblem(context, [name], "http:// would send tokens unencrypted; use https://");
  })
  .describe("Other addresses than Google's, for a gateway or a test.");

/** The options beside `connector: google`. */
export const options = z.strictObject({
  key: z
    .strictObject({ file: path.describe("The JSON key of the service account, as Google's console gives it.") })
    .describe("The service account that reads."),
  subject: z
    .email({ error: "expected the address of an administrator, such as sync@example.com" })
    .describe("The administrator for whom the service account reads; must see all users and groups."),
  customer: text("a customer id, such as C03az79cb")
    .default("my_customer")
    .describe("Whose directory is read, with all its domains. Default my_customer: the subject's."),
  users,
  groups,
  endpoints,
  attempts: count(1)
    .default(8)
    .describe("How often a request is tried, with pauses of up to 10 s. Google's limits are by the minute. Default 8."),
  ca: authorities,
  proxy: proxy.optional(),
  timeouts,
  ...minimums,
});

export type Options = z.infer<typeof options>;
