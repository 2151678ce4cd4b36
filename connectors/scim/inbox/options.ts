import { z } from "zod";
import * as values from "#values.ts";

const expectedToken = "a token, or where it is: ${env:NAME} or ${file:/path}";
const token = values.text(expectedToken).regex(/^[\x21-\x7E]+$/, {
  error: `expected ${expectedToken}; ASCII letters, digits and punctuation only, no spaces`,
});

const expectedBound = "expected a percentage like 10%, a number like 20, or none";
/** How many may be lost within the window. */
const bound = z
  .union(
    [
      z.literal("none").transform(() => undefined),
      values.notNegative.transform((count) => ({ count })),
      values
        .text("a percentage like 10%")
        .regex(/^(?:100|\d{1,2}(?:\.\d{1,3})?)%$/, { error: expectedBound })
        // 0% is meant to be nothing at all: no floor raises a number.
        .transform((value) => (Number.parseFloat(value) === 0 ? { count: 0 } : { percent: Number.parseFloat(value) })),
    ],
    { error: expectedBound },
  )
  .prefault("10%");

const brakes = z
  .union(
    [
      z.literal(false),
      values.section({
        window: values.duration
          .prefault("24h")
          .describe("How far back the brakes count, whatever runs have already read. Default 24h."),
        deletions: bound.describe("How many users, and how many groups, may be deleted. Default 10%."),
        deactivations: bound.describe("How many users may be deactivated. Default 10%."),
        membershipsLost: bound.describe("How many memberships may be removed. Default 10%."),
      }),
    ],
    { error: "expected false, or a mapping with window, deletions, deactivations, membershipsLost" },
  )
  .prefault({})
  .describe("What holds a sync before the plan is judged: losses that were pushed. false: no brakes.");

/** `inbox`: providers push to this source. */
export const inbox = values
  .section({
    tokens: z
      .array(token, { error: 'expected a list of tokens like ["${env:OKTA_TOKEN}"]' })
      .prefault([])
      .describe(
        "Tokens that providers send, besides those of `rollcall inbox token add`; better ${env:NAME} or ${file:/path}.",
      ),
    settle: values.patience
      .prefault("5m")
      .describe("How long no push must have come before the inbox is read. Default 5m."),
    maxWait: values.patience
      .prefault("1h")
      .describe("The longest wait for that: then the inbox is read although pushes go on. Default 1h."),
    firstCycle: values.duration
      .prefault("24h")
      .describe(
        "Until no new user has come for this long for the first time, nobody is deleted for being absent from the inbox. Default 24h.",
      ),
    brakes,
    refuse: z
      .boolean()
      .prefault(false)
      .describe(
        "true: refuse what would trip a brake, with 503 and Retry-After, instead of accepting it and holding the sync.",
      ),
    requestsPerSecond: values.atLeastOne
      .prefault(500)
      .describe("How many requests a second each token may send before it is answered 429. Default 500."),
    allowPlainHttp: z
      .boolean()
      .prefault(false)
      .describe(
        "Accept pushes over plain HTTP from other machines: anybody in between can read and change everything.",
      ),
  })
  .describe("Providers push to this source: they reach it at /scim/v2/NAME of the listener.");
