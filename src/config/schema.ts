import { z } from "zod";
import * as values from "#values.ts";
import { channel } from "#sync/notify/options.ts";
import { data, memory, service } from "#service/options.ts";
import { sync } from "./syncs.ts";

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

const expected = "a secret of at least 16 characters, or where it is: ${env:NAME} or ${file:/path}";

/** `metrics`: who may read them. */
const metrics = values.section({
  token: values
    .text(expected)
    .regex(/^[\x21-\x7E]{16,}$/, { error: `expected ${expected}; letters, digits and signs of ASCII, no spaces` })
    .exactOptional()
    .describe("A bearer token that whoever reads /metrics must have. Absent: whoever is on this machine reads them."),
  open: z.boolean().prefault(false).describe("true: everybody may read /metrics."),
});

/** The whole file. What concerns several keys at once is checked apart, so that every problem is found in one go. */
export const file = z.strictObject({
  service: service
    .nullish()
    .transform((value) => (value === null ? service.parse({}) : value))
    .describe("The service: users, groups, sessions. Leave it out to run the daemon alone."),
  daemon: values
    .section({ data, memory })
    .describe(
      "Where the daemon keeps what it stores, and how much memory a run may take, where the file has no service. Beside the service, it goes by service.data and service.memory.",
    ),
  control: values
    .section({
      listen: values.listen
        .prefault("127.0.0.1:0")
        .describe("Where the daemon's own API listens: host:port. Port 0 is any free one."),
      allowPlainHttp: z
        .boolean()
        .prefault(false)
        .describe("Allow an address that is not loopback, as for health checks from elsewhere."),
    })
    .describe("The daemon's own listener, where it runs without the service. Beside the service, it uses that one's."),
  targets: values.named(target).describe("Where syncs write to, by name."),
  sources: values.named(source).describe("Where users and groups come from, by name."),
  syncs: values.named(sync).describe("What is kept in step with what, by name."),
  journal: values
    .section({
      keep: values.duration.prefault("90d").describe("How long a run is remembered."),
      runs: values.atLeastOne.prefault(1000).describe("How many runs are remembered at most."),
      lists: values.atLeastOne
        .prefault(20)
        .describe("Of how many runs the changes and the list are kept at most: to look at them, and to undo them."),
    })
    .describe("What is remembered of runs."),
  notifications: values.named(channel).describe("How people are told of runs, by name."),
  metrics: metrics.describe("Who may read /metrics, beside administrators of the service."),
});

export type File = z.infer<typeof file>;
