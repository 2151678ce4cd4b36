import { z } from "zod";
import { InputError } from "#errors.ts";
import * as values from "#values.ts";
import { addressProblem } from "./address.ts";

/** What can be configured of a PostgreSQL server. Durations are in milliseconds, paths absolute. */
export const postgres = z.strictObject({
  postgres: values
    .text("a URL like postgres://user:password@host:5432/database")
    .superRefine((url, context) => {
      const problem = addressProblem(url);
      if (problem !== undefined) values.addProblem(context, [], problem);
    })
    .describe(
      "The database: postgres://user:password@host:5432/database?sslmode=verify-full. Of several hosts (host,host:5433) the primary is used. The user must not be a superuser. sslmode is verify-full unless the server is on this machine; others are verify-ca, require and disable.",
    ),
  sslrootcert: values.path
    .exactOptional()
    .describe("A PEM file with the authorities that may have issued the server's certificate. Absent: the usual ones."),
  poolSize: values.atLeastOne
    .prefault(10)
    .describe("The most connections of a pool. The service has two pools, one for tables."),
  statementTimeout: values.patience
    .prefault("10m")
    .describe("How long one statement may run. Writing a load and queries of pinboards have limits of their own."),
});

export type PostgresSettings = z.output<typeof postgres>;

/**
 * The database that a command names with `--to`, checked as one of the configuration is.
 * @throws {InputError} what is wrong with the URL, without it: it holds a password
 */
export function readTarget(given: {
  readonly postgres: string;
  readonly sslrootcert?: string | undefined;
}): PostgresSettings {
  const { postgres: url, sslrootcert } = given;
  const read = postgres.safeParse({ postgres: url, ...(sslrootcert === undefined ? {} : { sslrootcert }) });
  if (read.success) return read.data;
  throw new InputError(`--to: ${read.error.issues.map(({ message }) => message).join("; ")}`);
}
