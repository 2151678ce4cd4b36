import { z } from "zod";
import { limits, minimum } from "./limits.ts";
import { metrics } from "./metrics.ts";
import { channel, webAddress } from "./notifications.ts";
import { schedule } from "./schedule.ts";
import { section } from "./section.ts";
import * as values from "./values.ts";

/** Named things. `name:` with nothing below it is the same as no names. */
function named<Value extends z.ZodType>(value: Value) {
  return z
    .record(values.label, value)
    .nullish()
    .transform((record) => record ?? {});
}

const atLeastOne = z
  .int({ error: "expected a whole number, at least 1" })
  .min(1, { error: "expected a whole number, at least 1" });
const path = values.text("the path of a file");
const groupNames = z.array(values.principalName, { error: "expected a list of group names" });

const data = values
  .text("the path of a folder")
  .prefault("data")
  .describe("The folder of everything Rollcall stores, relative to this file.");
const memory = values.memory.prefault("1GiB").describe("DuckDB's memory limit; beyond it, it spills to disk.");

const service = z.strictObject({
  listen: values.listen
    .prefault("127.0.0.1:8442")
    .describe("Where the service listens: host:port. Port 0 is any free one."),
  data,
  administrator: section({
    name: values.principalName.prefault("admin").describe("The user that always holds every privilege."),
    password: z
      .string({ error: "expected a password" })
      .exactOptional()
      .describe("Empty or absent: generated and printed once, at the first start."),
  }).describe("The bootstrap administrator."),
  tls: z
    .strictObject({
      cert: path.describe("A certificate (with its chain) in PEM form."),
      key: path.describe("Its private key in PEM form."),
    })
    .exactOptional()
    .describe("Serve HTTPS."),
  allowPlainHttp: z
    .boolean()
    .prefault(false)
    .describe("Allow plain HTTP on an address that is not loopback: passwords then cross the network unencrypted."),
  prefixes: z
    .array(values.familyPrefix, { error: "expected a list of paths" })
    .prefault(["", "/callosum/v1"])
    .describe("What may stand before /tspublic/v1."),
  sessions: section({
    idle: values.duration.prefault("3h").describe("A session ends after this long without a request."),
    remembered: values.duration.prefault("7d").describe("How long a login with rememberme=true is valid, used or not."),
  }).describe("How long sessions last."),
  logins: section({
    attempts: atLeastOne
      .prefault(10)
      .describe("Failed logins of one name from one address that are allowed within the window."),
    window: values.duration.prefault("5m").describe("How long a failed login counts."),
    lockout: values.duration.prefault("5m").describe("How long further logins are refused."),
  }).describe("Protection against guessing."),
  privileges: section({
    administration: groupNames
      .prefault(["Administrator"])
      .describe("Groups whose members may read and change users and groups."),
    dataManagement: groupNames
      .prefault(["Administrator", "DataManager"])
      .describe("Groups whose members may load data."),
  }).describe("Which groups carry which privilege."),
  tables: path
    .exactOptional()
    .describe("A file of CREATE … IF NOT EXISTS statements: the databases, schemas and tables that loads write to."),
  nodeAddress: z
    .strictObject({
      host: values.host.describe("A name or an address, IPv6 in brackets."),
      port: values.port.describe("Its port."),
    })
    .exactOptional()
    .describe("What the start of a load says of where to send the data. Absent: what the client called."),
  loads: section({
    statusHold: values.duration.prefault("2s").describe("How long a status call may be held while a commit runs."),
    expireAfter: values.duration
      .prefault("24h")
      .describe("When a cycle that is not committed expires, and how long one that has ended is remembered."),
    maxChunk: values.size.prefault("8GiB").describe("The largest chunk."),
    maxCycle: values.size.prefault("64GiB").describe("The most that the chunks of one cycle may have together."),
    minFreeDisk: values.size.prefault("1GiB").describe("Uploads are refused when less than this would stay free."),
  }).describe("Data loads."),
  pinboards: values
    .text("the path of a folder")
    .exactOptional()
    .describe("A folder of pinboards, a YAML file each: *.yaml, *.yml. Read again on SIGHUP."),
  queries: section({
    timeout: values.duration.prefault("60s").describe("How long a query of a pinboard may run."),
    maxRows: atLeastOne.prefault(100_000).describe("The most rows that one visualization returns at a time."),
  }).describe("The queries of pinboards."),
  memory,
});

const remote = z.strictObject({
  url: values.origin.describe("Where the server is: https://host, https://host:port."),
  username: values
    .text("the name of a user with the privilege administration")
    .describe("A user with the privilege administration."),
  password: values
    .text("the user's password, or where it is: ${env:NAME} or ${file:/path}")
    .describe("Better not here but in the environment, ${env:NAME}, or in a file, ${file:/path}."),
  ca: path.exactOptional().describe("A file in PEM form that the server's certificate is checked against."),
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

const expression = (example: string) => values.text(`a CEL expression like ${example}`);
const byDefault = (text: z.ZodType<string>) =>
  z.strictObject({ default: text.describe("The value where the source has none.") });
/** An expression, or one beside what it means that the source has no value. */
const attribute = <Absence extends z.ZodType>(example: string, absence: Absence) =>
  z.union([
    expression(example),
    z.strictObject({
      value: expression(example).exactOptional().describe("A CEL expression. Absent: there never is a value."),
      absent: absence,
    }),
  ]);
const absentText = z
  .union([z.literal("keep"), z.literal("clear"), byDefault(values.text("a text"))])
  .describe("What no value means. keep: what the target has stays. clear: it is unset. Or { default: a text }.");
const absentName = z
  .union([z.literal("keep"), byDefault(values.principalName)])
  .describe("What no value means. keep: what the target has stays, or else the name. Or { default: a text }.");
const groupList = z.array(values.principalName, { error: 'expected a list of group names like ["everyone"]' });
const rules = {
  include: expression('entry.status == "active"')
    .exactOptional()
    .describe("True for the entries to take. Absent: all."),
  exclude: expression('entry.type == "service"')
    .exactOptional()
    .describe("True for the entries to leave out of those."),
  name: expression("lower(entry.uid)").describe("The name that identifies the principal."),
  displayName: attribute("entry.cn", absentName).describe("The name that people see."),
  description: attribute("entry.title", absentText).exactOptional().describe("A text or null."),
  groups: expression('["everyone"]').exactOptional().describe("Names of further groups it is directly in."),
};
/** Expressions for users. */
export const userRules = z.strictObject({
  ...rules,
  mail: attribute("entry.mail", absentText).exactOptional().describe("An address or null."),
});
/** Expressions for groups, which have no mail (B.5). */
export const groupRules = z.strictObject({
  ...rules,
  rename: z
    .record(values.principalName, values.principalName)
    .exactOptional()
    .describe("Other names for groups: the name that the rules give, and the one it gets."),
});
const staticGroup = section({
  displayName: values.principalName.exactOptional().describe("The name that people see. Absent: its name."),
  description: z.string({ error: "expected a text" }).exactOptional().describe("A text."),
  groups: groupList.prefault([]).describe("Names of groups that it is directly in."),
});
const patterns = z.array(values.text("a name, with * for any characters"), { error: 'expected a list like ["svc-*"]' });

const sourceName = values.text("the name of a source");
const optionalSource = z.strictObject({
  source: sourceName.describe("The name of a source."),
  optional: z
    .boolean()
    .prefault(false)
    .describe("true: when it cannot be read, what came from it stays as it is. Otherwise the run fails."),
  minUsers: minimum.exactOptional().describe("The fewest users that it must have in scope; a limit."),
  minGroups: minimum.exactOptional().describe("The fewest groups that it must have in scope; a limit."),
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
  staticGroups: z
    .record(values.principalName, staticGroup)
    .nullish()
    .transform((record) => record ?? {})
    .describe("Groups that exist whatever the sources say, by name."),
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
    runs: atLeastOne.prefault(1000).describe("How many runs are remembered at most."),
    lists: atLeastOne
      .prefault(20)
      .describe("Of how many runs the changes and the list are kept at most: to look at them, and to undo them."),
  }).describe("What is remembered of runs."),
  notifications: named(channel).describe("How people are told of runs, by name."),
  metrics: metrics.describe("Who may read /metrics, beside administrators of the service."),
});

export type File = z.infer<typeof file>;
export type Sync = z.infer<typeof sync>;
export type Target = z.infer<typeof target>;
