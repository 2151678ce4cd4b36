import { z } from "zod";
import * as values from "#values.ts";

const groupNames = z.array(values.principalName, { error: "expected a list of group names" });

/** The service's, and the daemon's where there is no service. */
export const data = values
  .text("the path of a folder")
  .prefault("data")
  .describe("The folder of everything Rollcall stores, relative to this file.");
export const memory = values.memory.prefault("1GiB").describe("DuckDB's memory limit; beyond it, it spills to disk.");

/** What `service` holds. */
export const service = z.strictObject({
  listen: values.listen
    .prefault("127.0.0.1:8442")
    .describe("Where the service listens: host:port. Port 0 is any free one."),
  data,
  administrator: values
    .section({
      name: values.principalName.prefault("admin").describe("The user that always holds every privilege."),
      password: z
        .string({ error: "expected a password" })
        .exactOptional()
        .describe("Empty or absent: generated and printed once, at the first start."),
    })
    .describe("The bootstrap administrator."),
  tls: z
    .strictObject({
      cert: values.path.describe("A certificate (with its chain) in PEM form."),
      key: values.path.describe("Its private key in PEM form."),
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
  sessions: values
    .section({
      idle: values.duration.prefault("3h").describe("A session ends after this long without a request."),
      remembered: values.duration
        .prefault("7d")
        .describe("How long a login with rememberme=true is valid, used or not."),
    })
    .describe("How long sessions last."),
  logins: values
    .section({
      attempts: values.atLeastOne
        .prefault(10)
        .describe("Failed logins of one name from one address that are allowed within the window."),
      window: values.duration.prefault("5m").describe("How long a failed login counts."),
      lockout: values.duration.prefault("5m").describe("How long further logins are refused."),
    })
    .describe("Protection against guessing."),
  privileges: values
    .section({
      administration: groupNames
        .prefault(["Administrator"])
        .describe("Groups whose members may read and change users and groups."),
      dataManagement: groupNames
        .prefault(["Administrator", "DataManager"])
        .describe("Groups whose members may load data."),
    })
    .describe("Which groups carry which privilege."),
  tables: values.path
    .exactOptional()
    .describe("A file of CREATE … IF NOT EXISTS statements: the databases, schemas and tables that loads write to."),
  nodeAddress: z
    .strictObject({
      host: values.host.describe("A name or an address, IPv6 in brackets."),
      port: values.port.describe("Its port."),
    })
    .exactOptional()
    .describe("What the start of a load says of where to send the data. Absent: what the client called."),
  loads: values
    .section({
      statusHold: values.duration.prefault("2s").describe("How long a status call may be held while a commit runs."),
      expireAfter: values.duration
        .prefault("24h")
        .describe("When a cycle that is not committed expires, and how long one that has ended is remembered."),
      maxChunk: values.size.prefault("8GiB").describe("The largest chunk."),
      maxCycle: values.size.prefault("64GiB").describe("The most that the chunks of one cycle may have together."),
      minFreeDisk: values.size.prefault("1GiB").describe("Uploads are refused when less than this would stay free."),
    })
    .describe("Data loads."),
  pinboards: values
    .text("the path of a folder")
    .exactOptional()
    .describe("A folder of pinboards, a YAML file each: *.yaml, *.yml. Read again on SIGHUP."),
  queries: values
    .section({
      timeout: values.duration.prefault("60s").describe("How long a query of a pinboard may run."),
      maxRows: values.atLeastOne.prefault(100_000).describe("The most rows that one visualization returns at a time."),
    })
    .describe("The queries of pinboards."),
  memory,
});

/** What can be configured of the service. Durations are in milliseconds, sizes in bytes, paths absolute. */
export type ServiceSettings = Omit<z.output<typeof service>, "data" | "memory" | "pinboards">;
