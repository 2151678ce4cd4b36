import { actions, someDigest } from "#plan/change.ts";
import { auditEvents } from "#state/audit/entry.ts";
import { stateNames } from "#state/record.ts";
import { z } from "zod";
import { isExpectation, overridable } from "#plan/limits.ts";
import { InputError } from "#errors.ts";

const digest = z
  .string({ error: "expected the 64 hexadecimal digits of a plan" })
  .regex(/^[0-9a-f]{64}$/, { error: "expected the 64 hexadecimal digits of a plan" });

const known = `expected one of ${overridable.join(", ")}, or expectation:NAME`;
const expectation = z.string({ error: known }).refine(isExpectation, { error: known });
const overrides = z.array(z.union([z.enum(overridable), expectation], { error: known }), {
  error: 'expected a list of limits like ["deletes"]',
});

const action = z.enum(actions, { error: "expected create, update, suspend, reactivate or delete" });
const kind = z.enum(["user", "group"], { error: "expected user or group" });

const expectedCause = "expected the id of a cause, like c1";
const expectedBeginning = "expected the digest of a plan, or at least the first 12 digits of it";

const causes = z.array(z.string({ error: expectedCause }).regex(/^c\d+$/, { error: expectedCause }), {
  error: 'expected a list like ["c1"]',
});

const expectedNames = 'expected a list of names like ["kim"]';

/** What `POST /syncs/:sync/run` takes. */
export const runBody = z.strictObject({
  digest: z.string({ error: expectedBeginning }).regex(someDigest, { error: expectedBeginning }).exactOptional(),
  overrides: overrides.exactOptional(),
  for: z
    .array(z.string({ error: "expected a name" }).min(1, { error: "expected a name" }), { error: expectedNames })
    .min(1, { error: expectedNames })
    .exactOptional(),
});

const reason = z
  .string({ error: "expected a text" })
  .max(2000, { error: "expected a text of at most 2000 characters" })
  .exactOptional();

const subjects = z.array(
  z.strictObject({ kind, name: z.string({ error: "expected a name" }).min(1, { error: "expected a name" }) }),
  { error: 'expected a list like [{"kind": "user", "name": "kim"}]' },
);

/** What `POST /runs/:id/approve` takes. The digest is required: nobody approves a plan they have not seen. */
export const approveBody = z.strictObject({
  digest,
  overrides: overrides.exactOptional(),
  only: z.array(action, { error: 'expected a list like ["create"]' }).exactOptional(),
  except: subjects.exactOptional(),
  these: subjects.exactOptional(),
  onlyCauses: causes.exactOptional(),
  exceptCauses: causes.exactOptional(),
  reason,
});

/** What `POST /runs/:id/reject` takes. */
export const rejectBody = z.strictObject({ reason });

/** For routes without a body. */
export const emptyBody = z.strictObject({});

const one = "expected one value";

/** What `GET /runs` takes in its query. */
export const runsQuery = z.strictObject({
  sync: z.string({ error: one }).exactOptional(),
  state: z.enum(stateNames, { error: `expected one of ${stateNames.join(", ")}` }).exactOptional(),
  /** The id of a run: list only older ones. */
  before: z.string({ error: one }).exactOptional(),
  limit: z
    .string({ error: one })
    .regex(/^[1-9]\d{0,3}$/, { error: "expected a whole number from 1 to 1000" })
    .transform(Number)
    .refine((limit) => limit <= 1000, { error: "expected a whole number from 1 to 1000" })
    .prefault("50"),
});

export type RunsQuery = z.output<typeof runsQuery>;

const date = z.iso.date({ error: "expected a date like 2026-11-21" });

/** What the page of the runs takes in its query, besides: `until` is the last day, of UTC. */
export const runsPageQuery = runsQuery.extend({ until: date.exactOptional() });

const day = date.transform((text) => Date.parse(text));
const entry = z
  .string({ error: one })
  .regex(/^[1-9]\d{0,14}$/, { error: "expected the number of an entry" })
  .transform(Number);

/** What the page of the audit log takes in its query. Days are those of UTC; `until` is the last one. */
export const auditQuery = z.strictObject({
  event: z.enum(auditEvents, { error: `expected one of ${auditEvents.join(", ")}` }).exactOptional(),
  /** A part of the name of who did it. */
  by: z.string({ error: one }).exactOptional(),
  sync: z.string({ error: one }).exactOptional(),
  run: z.string({ error: one }).exactOptional(),
  since: day.exactOptional(),
  until: day.transform((at) => at + 86_400_000).exactOptional(),
  /** List only entries before it. */
  before: entry.exactOptional(),
  /** The first entry that counts. */
  from: entry.exactOptional(),
});

/** What all values of one filter have together, in characters: they become one expression. */
const longestFilter = 10_000;

/** One value, or several of one name. */
function several<Value extends z.ZodType<string>>(value: Value) {
  const isShort = (values: readonly string[]): boolean => values.join(" ").length <= longestFilter;
  const error = `expected at most ${longestFilter} characters in all values together`;
  return z.preprocess((given) => (Array.isArray(given) ? given : [given]), z.array(value).refine(isShort, { error }));
}

/** What `GET /runs/:id/changes` takes in its query. A change must match all of them. */
export const changesQuery = z.strictObject({
  kind: kind.exactOptional(),
  action: several(action).exactOptional(),
  /** `*` stands for any characters. */
  name: several(z.string()).exactOptional(),
  /** A record of one of these sources makes the principal, or made it. */
  source: several(z.string()).exactOptional(),
  /** Ids of causes, as the run names them. */
  cause: several(z.string()).exactOptional(),
  /** Groups, or whose memberships in them change. */
  group: several(z.string()).exactOptional(),
  /** Attributes that change, or `groups`. */
  attribute: several(z.string()).exactOptional(),
});

/** @throws {InputError} with a problem per wrong field */
export function read<Value>(schema: z.ZodType<Value>, input: unknown, what: "body" | "query"): Value {
  const result = schema.safeParse(input ?? {}, { reportInput: true });
  if (result.success) return result.data;
  const problems = result.error.issues.flatMap((issue) => {
    const place = z.core.toDotPath(issue.path);
    if (issue.code === "unrecognized_keys") return issue.keys.map((key) => `${below(place, key)}: unknown`);
    if (issue.path.length === 0) return ["expected a JSON object"];
    return [`${place}: ${issue.input === undefined ? "missing; " : ""}${issue.message}`];
  });
  throw new InputError(`the ${what} of the request is wrong`, { problems });
}

function below(place: string, key: string): string {
  return place === "" ? key : `${place}.${key}`;
}
