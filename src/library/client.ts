/** `rollcall/client`: clients of a service, for loads (family A), and for users and groups (family B). */
export { Client } from "#client/client.ts";
export type { ClientOptions, Submission } from "#client/client.ts";
export type { FileSource, LoadSource, StreamSource } from "#client/chunks.ts";
export { Loads, requireLoaded } from "#client/loads.ts";
export type { Load, Loaded, LoadsOptions, LoadSignals, Progress } from "#client/loads.ts";
export type { Credentials } from "#client/session.ts";
export { runSql } from "#client/sql.ts";
export type { SqlResult } from "#client/sql.ts";
export { InputError, RefusedError, UnavailableError } from "#errors.ts";
