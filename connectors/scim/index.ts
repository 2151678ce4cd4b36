import { Enough } from "#completeness.ts";
import type { Connector, InboxSettings, OpenContext, ReadContext, Source, SourceRecord } from "#connector.ts";
import { digestOf, OpenFiles } from "#files/source-file.ts";
import { reading } from "#http/directory/api.ts";
import { describeConnection } from "#http/trust.ts";
import type { Authorization } from "#http/directory/authorization.ts";
import { authorizationOf, fileReader } from "#http/directory/options.ts";
import { Server } from "./client.ts";
import type { ServerOptions } from "./client.ts";
import { find } from "./find.ts";
import { partsOf, readFiles } from "./files.ts";
import type { FileOptions } from "./files.ts";
import { Pushing } from "./pushed.ts";
import { pageOf } from "./list.ts";
import { options } from "./options.ts";
import type { Options } from "./options.ts";
import { entryOptionsOf, pagingOf, readServer } from "./server.ts";
import { accessQuestions } from "#http/directory/questions.ts";

/** Users and groups from SCIM 2.0 servers, from files of SCIM resources, and from providers that push them. Its options: `README.md` in this folder. */
const scim: Connector<Options> = {
  name: "scim",
  options,
  questions: [
    { option: "url", label: "address", message: "The server's address (https://HOST/scim/v2):" },
    ...accessQuestions,
  ],
  inbox: ({ inbox }) => inbox,
  open: (options, place) => {
    if (options.inbox !== undefined) return openInbox(options, options.inbox, place);
    const authorization = authorizationOf(options.auth, fileReader(place.folder));
    return {
      read: (context) => read(options, authorization, place, context),
      recheck: ({ records }, context) => checked(records, options, place, context),
      describe: (context) => describe(options, authorization, place, context),
      // Files do not change during a read.
      ...(isServer(options)
        ? {
            uniqueIds: true,
            paged: true,
            find: (records, context) =>
              reading(
                () => new Server(options, authorization, place, context),
                (server) => find(server, options, records, context),
              ),
          }
        : {
            version: ({ signal }) => digestOf(partsOf(options.files ?? {}), place, signal),
            versionIsDigest: true,
          }),
    };
  },
};

export default scim;

/** A source that providers push to. */
function openInbox(options: Options, settings: InboxSettings, place: OpenContext): Source {
  const pushing = new Pushing(place, settings);
  // What was pushed is all there is: however much less than before, and groups without members too, brakes and limits judge that.
  const fewest = { ...options, minMemberships: options.minMemberships ?? 0 };
  const read = (context: ReadContext): AsyncGenerator<readonly SourceRecord[]> => {
    const { users: _, groups: __, memberships: ___, ...lastCounts } = context.lastCounts ?? {};
    return checked(pushing.read(context, entryOptionsOf(options, context)), fewest, place, { ...context, lastCounts });
  };
  return {
    read,
    recheck: ({ records }, context) => checked(records, fewest, place, context),
    describe: () => pushing.describe(),
    pushed: (seen, now) => pushing.pushed(seen, now),
    uniqueIds: true,
    version: () => pushing.version(),
    versionIsDigest: true,
  };
}

/**
 * Everything on the server, or in the files.
 * @throws {IncompleteReadError} also when there is less than configured, or than the last good read makes likely
 */
export function read(
  options: Options,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  return checked(recordsOf(options, authorization, open, context), options, open, context);
}

function checked(
  delivered: AsyncIterable<readonly SourceRecord[]>,
  options: Options,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const isApart = options.groups !== false && options.groups.members === "each";
  const hint = isApart ? "" : "a server that leaves members out of lists needs groups: { members: each }; ";
  return Enough.check(delivered, options, open, context, hint);
}

async function* recordsOf(
  options: Options,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  if (isServer(options))
    yield* reading(
      () => new Server(options, authorization, open, context),
      (server) => readServer(server, options, context),
    );
  else if (isFiles(options)) yield* readFiles(options, open, context);
}

/** Whether a server is read. */
export function isServer(options: Options): options is ServerOptions {
  return options.url !== undefined;
}

/** Whether files are read. */
export function isFiles(options: Options): options is FileOptions {
  return options.files !== undefined;
}

/**
 * The server, its protection, the login and the paging; or the files.
 * @throws what `Server.ask` throws; {IncompleteReadError} a file is missing
 */
export async function describe(
  options: Options,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): Promise<readonly string[]> {
  if (isServer(options)) return describeServer(options, authorization, open, context);
  return isFiles(options) ? describeFiles(options, open, context) : [];
}

async function describeServer(
  options: ServerOptions,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): Promise<readonly string[]> {
  await using server = new Server(options, authorization, open, context);
  const { by, count, firstCursor } = await pagingOf(options, server);
  const parts = [["users", options.users] as const];
  const totals: string[] = [];
  for (const [name, part] of options.groups === false ? parts : [...parts, ["groups", options.groups] as const]) {
    const filter: Record<string, string> = part.filter === undefined ? {} : { filter: part.filter };
    const cursor: Record<string, string> = firstCursor === undefined ? {} : { cursor: firstCursor };
    const start = by === "cursor" ? cursor : { startIndex: "1" };
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
}

async function describeFiles(
  { files }: FileOptions,
  open: OpenContext,
  { signal }: ReadContext,
): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const [content, names] of [
    ["users", files.users],
    ["groups", files.groups],
    ["users and groups", files.mixed],
  ] as const) {
    if (names === undefined) continue;
    await using set = await OpenFiles.open([names].flat(), open, files, signal);
    lines.push(`${content} in ${set.files.map((file) => file.name).join(", ")}`);
  }
  return lines;
}
