import type { ServerResponse } from "node:http";
import { onTestFinished } from "vitest";
import type { Entry, ReadContext, SourceRecord } from "#connector.ts";
import scim from "#connectors/scim/index.ts";
import { startPagedScim } from "../../support/scim.ts";
import type { Quirks, ScimDirectory, ScimServer } from "../../support/scim.ts";
import { largeCompany } from "./company.ts";
import { directoryOf } from "./scim-medium.ts";

/** How a source is opened and read. */
export interface Reading extends Partial<Omit<ReadContext, "warn">> {
  readonly folder?: string;
  readonly warnings?: string[];
}

export function open(options: object, folder = "/") {
  return scim.open(scim.options.parse(options), { name: "corp", folder });
}

export function contextOf({ folder: _folder, warnings, signal = new AbortController().signal, ...rest }: Reading = {}) {
  return { ...rest, signal, warn: (message: string): void => void warnings?.push(message) };
}

export async function records(options: object, reading: Reading = {}): Promise<readonly SourceRecord[]> {
  return (await Array.fromAsync(open(options, reading.folder).read(contextOf(reading)))).flat();
}

export async function entries(options: object, reading?: Reading): Promise<readonly Entry[]> {
  return (await records(options, reading)).filter((record) => record.kind !== "membership");
}

export async function ids(options: object, reading?: Reading): Promise<readonly string[]> {
  return (await entries(options, reading)).map(({ kind, id }) => `${kind} ${id}`);
}

export const small = (): ScimDirectory => directoryOf(largeCompany(10));
export const numbers = (count: number) => Array.from({ length: count }, (_, index) => `user ${index + 1}`);

export async function started(server: Promise<ScimServer>): Promise<ScimServer> {
  const running = await server;
  onTestFinished(() => running.close());
  return running;
}

export const paged = (directory: ScimDirectory, quirks?: Quirks, authorization?: () => string) =>
  started(startPagedScim(directory, quirks, authorization === undefined ? {} : { authorization }));

export function answer(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): true {
  response.writeHead(status, { "content-type": "application/scim+json", ...headers }).end(JSON.stringify(body));
  return true;
}
