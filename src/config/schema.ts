import { z } from "zod";
import { limits } from "./limits.ts";
import { expression, groupList, groupRules, staticGroup, userRules } from "./mapping.ts";
import { metrics } from "./metrics.ts";
import { channel, webAddress } from "./notifications.ts";
import { schedule } from "./schedule.ts";
import { section } from "#values.ts";
import { data, memory, service } from "./service.ts";
import * as values from "#values.ts";

/** Named things. `name:` with nothing below it is the same as no names. */
function named<Value extends z.ZodType>(value: Value, name = values.label) {
  return z
    .record(name, value)
    .nullish()
    .transform((record) => record ?? {});
}

const remote = z.strictObject({
  url: values.origin.describe("Where the server is: https://host, https://host:port."),
  username: values
    .text("the name of a user with the privilege administration")
    .describe("A user with the privilege administration."),
  password: values
    .text("the user's password, or where it is: ${env:NAME} or ${file:/path}")
    .describe("Better not here but in the environment, ${env:NAME}, or in a file, ${file:/path}."),
  ca: values.path.exactOptional().describe("A file in PEM form that the server's certificate is checked against."),
  prefix: values.prefix.prefault("").describe("What stands before /tspublic/v1 on that server."),
  nodes: z
    .array(values.node, { error: "expected a list of hosts like [node1.example.com]" })
    .prefault([])
    .describe("Other hosts that data may be sent to when the server says so: host or host:port."),
});

const target = z
  .union([z.literal("embedded"), remote])
  .describe("embedded: the service of this file. Otherwise a server that speaks the same interface.");

/** What every source may say beside its connector's own options. */
export const sourceSettings = z.strictObject({
  fullReadEvery: values.duration
    .exactOptional()
    .describe(
      "How long a source that tells that nothing has changed need not be read. Absent: it is read at every run.",
    ),
});

/** A source but for its connector's own options, which that connector's schema validates. */
const source = z.looseObject({
  connector: values.text("the kind of source, or the path of a module like ./hr.ts"),
  ...sourceSettings.shape,
});

const patterns = z.array(values.text("a name, with * for any characters"), { error: 'expected a list like ["svc-*"]' });

const sourceName = values.text("the name of a source");
const optionalSource = z.strictObject({
  source: sourceName.describe("The name of a source."),
  optional: z
    .boolean()
    .prefault(false)
    .describe("true: when it cannot be read, what came from it stays as it is. Otherwise the run fails."),
  minUsers: values.atLeastOne.exactOptional().describe("The fewest users that it must have in scope; a limit."),
  minGroups: values.atLeastOne.exactOptional().describe("The fewest groups that it must have in scope; a limit."),
});

const noTime = "expected 0 or a duration like 7d";
const zero = z.int({ error: noTime }).min(0, { error: noTime }).max(0, { error: noTime });

const sync = z.strictObject({
  from: z
    .array(z.union([sourceName, optionalSource]), { error: "expected a list of sources like [corp]" })
    .min(1, { error: "expected at least one source" })
    .describe("The sources that are read, by name; where entries are joined, the first one wins."),
  join: z
    .strictObject({
      users: expression("lower(entry.mail)").exactOptional().describe("What users of several sources are joined by."),
      groups: expression("lower(entry.cn)").exactOptional().describe("What groups of several sources are joined by."),
    })
    .exactOptional()
    .describe("Expressions that give entries of several sources that are one the same text. Absent: none are."),
  to: values.text("the name of a target").describe("The target that is written to, by name."),
  ...schedule,
  users: userRules.describe("What becomes of the sources' users: CEL expressions over `entry`."),
  groups: groupRules.exactOptional().describe("What becomes of the sources' groups. Absent: they are not taken over."),
  staticGroups: named(staticGroup, values.principalName).describe(
    "Groups that exist whatever the sources say, by name.",
  ),
  defaultGroups: groupList.prefault([]).describe("Names of groups that every user is directly in."),
  manage: z
    .enum(["owned", "everything"])
    .prefault("owned")
    .describe("owned: only what this sync created or adopted. everything: all that is not protected."),
  protect: section({
    users: patterns.prefault([]).describe("Names of users that are never touched."),
    groups: patterns.prefault([]).describe("Names of groups that are never touched."),
  }).describe("What is never touched."),
  deletions: section({
    after: z
      .union([zero, values.duration], { error: noTime })
      .prefault(0)
      .describe("How long a principal that is gone from the sources stays. 0: it is deleted at once."),
  }).describe("When principals are deleted."),
  renames: z
    .enum(["hold", "apply"])
    .prefault("apply")
    .describe("A known record with another name. apply: deleted and created anew. hold: it keeps the old name."),
  reusedNames: z
    .enum(["hold", "apply"])
    .prefault("hold")
    .describe("A known name with another record: somebody else. hold: it stays as it is. apply: it is taken over."),
  limits: limits.describe("What a run may change at most, and what it must find at least."),
  approval: z
    .enum(["required", "automatic", "automatic-within-limits"])
    .prefault("automatic")
    .describe(
      "Who lets a plan be applied. required: a person, always. automatic: nobody; what is beyond the limits is held. " +
        "automatic-within-limits: a person, where a limit is tripped.",
    ),
  approvalExpires: values.duration.prefault("24h").describe("How long a plan can be approved."),
  defaultPassword: z
    .string({ error: "expected a password" })
    .exactOptional()
    .describe("The password of every user that is created. Absent: a random one, known to nobody."),
  export: z
    .strictObject({
      database: values
        .text("the name of a database")
        .describe("A database of the target with the tables of config/sample/tables.sql."),
      schema: values.text("the name of a schema").exactOptional().describe("Absent: the database's default schema."),
    })
    .exactOptional()
    .describe("Where the target's users, groups and memberships are exported to after every run that changed them."),
  heartbeat: webAddress.exactOptional().describe("A URL that is requested after each success of the sync."),
});

/** The whole file. What concerns several keys at once is checked apart, so that every problem is found in one go. */
export const file = z.strictObject({
  service: service
    .nullish()
    .transform((value) => (value === null ? service.parse({}) : value))
    .describe("The service: users, groups, sessions. Leave it out to run the daemon alone."),
  daemon: section({ data, memory }).describe(
    "Where the daemon keeps what it stores, and how much memory a run may take, where the file has no service. Beside the service, it goes by service.data and service.memory.",
  ),
  control: section({
    listen: values.listen
      .prefault("127.0.0.1:0")
      .describe("Where the daemon's own API listens: host:port. Port 0 is any free one."),
    allowPlainHttp: z
      .boolean()
      .prefault(false)
      .describe("Allow an address that is not loopback, as for health checks from elsewhere."),
  }).describe("The daemon's own listener, where it runs without the service. Beside the service, it uses that one's."),
  targets: named(target).describe("Where syncs write to, by name."),
  sources: named(source).describe("Where users and groups come from, by name."),
  syncs: named(sync).describe("What is kept in step with what, by name."),
  journal: section({
    keep: values.duration.prefault("90d").describe("How long a run is remembered."),
    runs: values.atLeastOne.prefault(1000).describe("How many runs are remembered at most."),
    lists: values.atLeastOne
      .prefault(20)
      .describe("Of how many runs the changes and the list are kept at most: to look at them, and to undo them."),
  }).describe("What is remembered of runs."),
  notifications: named(channel).describe("How people are told of runs, by name."),
  metrics: metrics.describe("Who may read /metrics, beside administrators of the service."),
});

export type File = z.infer<typeof file>;
export type Sync = z.infer<typeof sync>;
export type Target = z.infer<typeof target>;
