import { describeConnection } from "#http/trust.ts";
import type { OpenContext, ReadContext } from "#connector.ts";
import { openFiles } from "#files/source-file.ts";
import type { Authorization } from "./authorization.ts";
import type { FileOptions } from "./files.ts";
import { type LiveOptions, pagingOf } from "./live.ts";
import type { Options } from "./options.ts";
import { pageOf } from "./page.ts";
import { isFiles, isLive } from "./read.ts";
import { openServer } from "./server.ts";

/**
 * What is reached, how it is protected, as whom, and how it is read.
 * @throws what `ask` throws; {IncompleteReadError} when a file is missing
 */
export async function describe(
  options: Options,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): Promise<readonly string[]> {
  if (isLive(options)) return describeServer(options, authorization, open, context);
  return isFiles(options) ? describeFiles(options, open, context) : [];
}

async function describeServer(
  options: LiveOptions,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): Promise<readonly string[]> {
  const server = await openServer(options, authorization, open, context);
  try {
    const { by, count } = await pagingOf(options, server);
    const parts = [["users", options.users] as const];
    const totals: string[] = [];
    for (const [name, part] of options.groups === false ? parts : [...parts, ["groups", options.groups] as const]) {
      const filter: Record<string, string> = part.filter === undefined ? {} : { filter: part.filter };
      const start: Record<string, string> = by === "cursor" ? { cursor: "" } : { startIndex: "1" };
      const page = pageOf(server, {
        path: part.path,
        parameters: { ...filter, ...start, count: "1", attributes: "id" },
      });
      let step = await page.next();
      while (step.done !== true) step = await page.next();
      const total = typeof step.value === "string" ? undefined : step.value.totalResults;
      totals.push(total === undefined ? `${name}, it does not say how many` : `${total.toLocaleString("en")} ${name}`);
    }
    return [
      `${server.base.href}, ${describeConnection(server.socket())}`,
      `as ${authorization.who}`,
      `a SCIM server with ${totals.join(" and ")}`,
      `read by ${by === "cursor" ? "cursor" : "startIndex"}, ${count} at a time`,
    ];
  } finally {
    await server.close();
  }
}

async function describeFiles(
  { files }: FileOptions,
  { folder }: OpenContext,
  { signal }: ReadContext,
): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const [content, names] of [
    ["users", files.users],
    ["groups", files.groups],
    ["users and groups", files.mixed],
  ] as const) {
    if (names === undefined) continue;
    const set = await openFiles([names].flat(), folder, files, signal);
    await set.close();
    lines.push(`${content} in ${set.files.map((file) => file.name).join(", ")}`);
  }
  return lines;
}
