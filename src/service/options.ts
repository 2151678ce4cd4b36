import { z } from "zod";
import { postgres } from "#postgres/options.ts";
import * as values from "#values.ts";

const groupNames = z.array(values.principalName, { error: "expected a list of group names" });

/** The service's, and the daemon's where there is no service. */
export const data = values
  .text("the path of a folder")
  .prefault("data")
  .describe("The folder for everything Rollcall stores, relative to this file.");
export const memory = values.memory
  .prefault("1GiB")
  .describe(
    "DuckDB's memory limit; beyond it, DuckDB spills to disk. A run of a sync takes half as much for itself, or 512 MiB if that is more and the limit allows it. Also the limit of all answers of pinboards together.",
  );

export const engine = z
  .union([z.literal("duckdb"), postgres], { error: "expected duckdb, or { postgres: URL }" })
  .prefault("duckdb")
  .describe(
    "Where users, groups, sessions and tables are stored. duckdb: in the data folder. Otherwise in a PostgreSQL database.",
  );

/** What `service` holds. */
export const service = z.strictObject({
  listen: values.listen.prefault("127.0.0.1:8442").describe("The service's address: host:port. Port 0: any free port."),
  data,
  engine,
  administrator: values
    .section({
      name: values.principalName.prefault("admin").describe("The user who always has every privilege."),
      password: z
        .string({ error: "expected a password" })
        .exactOptional()
        .describe("The password. Empty or absent: generated and printed once, at the first start."),
    })
    .describe("The built-in administrator."),
  tls: z
    .strictObject({
      cert: values.path.describe("A PEM file with the certificate and its chain."),
      key: values.path.describe("A PEM file with the private key."),
    })
    .exactOptional()
    .describe("The certificate to serve HTTPS with."),
  allowPlainHttp: z
    .boolean()
    .prefault(false)
    .describe(
      "Allow plain HTTP on an address that other machines can reach. Passwords then cross the network unencrypted.",
    ),
  trustedProxies: z
    .array(values.network, { error: "expected a list of addresses or networks" })
    .prefault([])
    .describe(
      "The addresses or networks (10.0.0.0/8) of the proxies in front of the service. Behind them, a client's address is the last one in X-Forwarded-For that is not a proxy's.",
    ),
  prefixes: z
    .array(values.familyPrefix, { error: "expected a list of paths" })
    .prefault(["", "/callosum/v1"])
    .describe("The paths that may come before /tspublic/v1."),
  sessions: values
    .section({
      idle: values.duration.prefault("3h").describe("How long a session lasts without a request."),
      remembered: values.duration.prefault("7d").describe("How long a login with rememberme=true lasts, used or not."),
    })
    .describe("How long sessions last."),
  logins: values
    .section({
      attempts: values.atLeastOne
        .prefault(10)
        .describe("How many failed logins one name may have from one address within the window."),
      window: values.duration.prefault("5m").describe("How long a failed login counts."),
      lockout: values.duration.prefault("5m").describe("How long to refuse further logins."),
    })
    .describe("Protection against password guessing."),
  privileges: values
    .section({
      administration: groupNames
        .prefault(["Administrator"])
        .describe("Groups whose members may read and change users and groups."),
      dataManagement: groupNames
        .prefault(["Administrator", "DataManager"])
        .describe("Groups whose members may load data."),
    })
    .describe("Which groups have which privilege."),
  tables: values.path
    .exactOptional()
    .describe(
      "A SQL file with CREATE … IF NOT EXISTS statements for the databases, schemas and tables that loads write to.",
    ),
  advertise: values.listen
    .refine(({ port }) => port !== 0, { error: "expected the port that this replica listens on" })
    .exactOptional()
    .describe(
      "With PostgreSQL: the address where other replicas of the service reach this one, host:port. Absent: the one it listens on or, if that is every address, the first one that is not loopback.",
    ),
  nodeAddress: z
    .strictObject({
      host: values.host.describe("A host name or address, IPv6 in brackets."),
      port: values.port.describe("The port."),
    })
    .exactOptional()
    .describe("The address that clients are told to send a load's data to. Absent: the one they called."),
  loads: values
    .section({
      statusHold: values.patience.prefault("2s").describe("How long a status call may wait while a commit runs."),
      expireAfter: values.duration
        .prefault("24h")
        .describe("How long an uncommitted cycle lasts, and how long an ended one is remembered."),
      lostAfter: values.patience
        .prefault("30s")
        .describe("With PostgreSQL: how long a replica may be away before its unwritten loads fail."),
      maxChunk: values.size.prefault("8GiB").describe("The largest size of one chunk."),
      maxCycle: values.size.prefault("64GiB").describe("The largest size of all chunks of a cycle together."),
      minFreeDisk: values.size
        .prefault("1GiB")
        .describe("Refuse uploads that would leave less free disk space than this."),
    })
    .describe("Data loads."),
  pinboards: values
    .text("the path of a folder")
    .exactOptional()
    .describe("A folder of pinboards, one YAML file each: *.yaml, *.yml. Read again on SIGHUP."),
  queries: values
    .section({
      timeout: values.duration.prefault("60s").describe("How long a query of a pinboard may run."),
      maxRows: values.atLeastOne.prefault(100_000).describe("The most rows a visualization returns at a time."),
    })
    .describe("Limits on the queries of pinboards."),
  memory,
});

/** What can be configured of the service. Durations are in milliseconds, sizes in bytes, paths absolute. */
export type ServiceSettings = Omit<z.output<typeof service>, "data" | "memory" | "pinboards">;
