import { z } from "zod";
import { InputError, UnavailableError } from "#errors.ts";
import { localRoutes } from "#wire/routes.ts";
import { sqlResult } from "#wire/sql.ts";
import type { SqlRequest, SqlResult } from "#wire/sql.ts";
import type { ClientOptions } from "./client.ts";
import { jsonBody } from "#http/client.ts";
import { contextOf, jsonOf } from "./request.ts";
import { createSession } from "./session.ts";

export type { SqlResult };

const newPassword = z.object({ name: z.string(), password: z.string() });

/** Makes the files of the databases of this machine's service fit to be copied for 20 seconds, or lets go of them. @param options as for `runSql` */
export async function holdFiles(options: ClientOptions, what: "hold" | "release", signal: AbortSignal): Promise<void> {
  const session = createSession(contextOf(options, ""), options.credentials);
  const operation = { title: `files: ${what}`, route: localRoutes[what], body: jsonBody({}) };
  await session.send(operation, async () => undefined, signal);
}

/** Gives the administrator of the service of this machine's data folder a new password. @param options as for `runSql` */
export function resetPassword(options: ClientOptions, signal: AbortSignal): Promise<z.infer<typeof newPassword>> {
  const session = createSession(contextOf(options, ""), options.credentials);
  const operation = {
    title: "a new password",
    route: localRoutes.password,
    body: jsonBody({}),
    once: "ask for one again",
    advice: { 403: "it is for commands on the machine of the service" },
  };
  return session.send(operation, (answer) => jsonOf(answer, newPassword, 4096), signal);
}

const refusal = z.object({ error: z.string() });

/**
 * Runs an administrator's SQL in the service of this machine's data folder.
 * @param options with the session that the service has left in its data folder
 * @throws {InputError} what is wrong with the SQL; {UnavailableError} when memory, disk or time did not suffice
 */
export function runSql(options: ClientOptions, request: SqlRequest, signal: AbortSignal): Promise<SqlResult> {
  const session = createSession(contextOf(options, ""), options.credentials);
  const operation = {
    title: "SQL",
    route: localRoutes.sql,
    body: jsonBody(request),
    accept: [400, 413, 503, 507],
    once: "look at the tables before it is run again",
    advice: { 403: "SQL is for commands on the machine of the service" },
  };
  return session.send(
    operation,
    async (answer) => {
      if (answer.status === 200) return jsonOf(answer, sqlResult, Infinity);
      const { error } = await jsonOf(answer, refusal);
      if (answer.status < 500) throw new InputError(error);
      throw new UnavailableError(
        `the SQL did not end: ${error}. What was not complete is undone; look at the tables before you run it again`,
      );
    },
    signal,
  );
}
