import { z } from "zod";
import * as values from "#values.ts";
import { channel } from "#notify/options.ts";
import { service } from "#service/options.ts";
import { consoleSettings } from "./console.ts";
import { daemon } from "./state.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import { syncOf } from "./syncs.ts";

const remote = z.strictObject({
  connector: z.literal("service").exactOptional().describe("A server with the interface of the service."),
  url: values.origin.describe("The server's address: https://host or https://host:port."),
  username: values
    .text("the name of a user with the privilege administration")
    .describe("A user with the administration privilege."),
  password: values
    .text("the user's password, or where it is: ${env:NAME} or ${file:/path}")
    .describe("The password. Keep it out of this file: use ${env:NAME} or ${file:/path}."),
  ca: values.path
    .exactOptional()
    .describe("A PEM file with the certificate authority that signed the server's certificate."),
  proxy: values.proxy.exactOptional(),
  prefix: values.prefix.prefault("").describe("The path before /tspublic/v1 on that server."),
  nodes: z
    .array(values.node, { error: "expected a list of hosts like [node1.example.com]" })
    .prefault([])
    .describe("Other hosts, or other ports of its host, that the server may send a load's data to: host or host:port."),
});

const target = z
  .union([z.literal("embedded"), remote])
  .describe(
    "embedded: the service in this file. Otherwise, a server with the same interface, or an application with a connector of its own.",
  );

/** The settings of every source, besides its connector's own options. */
export const sourceSettings = z.strictObject({
  fullReadEvery: values.duration
    .exactOptional()
    .describe("How long to skip reading the source while it reports no changes. Absent: every run reads it."),
});

/** A source. The connector's schema validates its own options. */
const source = z.looseObject({
  connector: values.text("the kind of source, or the path of a module like ./hr.ts"),
  ...sourceSettings.shape,
});

const expected = "a secret of at least 16 characters, or where it is: ${env:NAME} or ${file:/path}";

/** `metrics`: who may read them. */
const metrics = values.section({
  token: values
    .text(expected)
    .regex(/^[\x21-\x7E]{16,}$/, {
      error: `expected ${expected}; ASCII letters, digits and punctuation only, no spaces`,
    })
    .exactOptional()
    .describe("The bearer token for /metrics. Absent: only requests from this machine may read it."),
  open: z.boolean().prefault(false).describe("true: anyone may read /metrics."),
});

/** The whole file. `checks.ts` checks what involves several keys, so that one pass finds every problem. */
export const file = z.strictObject({
  service: service
    .nullish()
    .transform((value) => (value === null ? service.parse({}) : value))
    .describe("The service: users, groups, sessions and loads. Leave it out to run the daemon alone."),
  daemon,
  control: values
    .section({
      listen: values.listen
        .prefault("127.0.0.1:0")
        .describe("The address of the daemon's own API: host:port. Port 0: any free port."),
      allowPlainHttp: z
        .boolean()
        .prefault(false)
        .describe("Allow an address that other machines can reach, for example for health checks."),
    })
    .describe(
      "The daemon's own listener, when it runs without the service. With the service, it shares the service's listener.",
    ),
  targets: values.named(target).describe("The targets that syncs write to, by name."),
  sources: values.named(source).describe("The directories that users and groups come from, by name."),
  syncs: values
    .named(syncOf(serviceAttributes))
    .describe("The syncs, by name: which sources go to which target, when, and by which rules."),
  journal: values
    .section({
      keep: values.duration.prefault("90d").describe("How long to remember a run."),
      runs: values.atLeastOne.prefault(1000).describe("How many runs to remember."),
      lists: values.atLeastOne
        .prefault(20)
        .describe("For how many runs to store the changes and the list, so that they can be shown and undone."),
    })
    .describe("How much of the run history to store."),
  notifications: values.named(channel).describe("The channels that notify people about runs, by name."),
  metrics: metrics.describe("Who may read /metrics, besides administrators of the service."),
  console: z
    .union([z.literal(false), consoleSettings])
    .prefault({})
    .describe("The web console at / of the listener, and the documents at /docs. false: there are none."),
});

export type File = z.infer<typeof file>;
