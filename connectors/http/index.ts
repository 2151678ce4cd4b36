import { Enough } from "#completeness.ts";
import type { Connector, OpenContext, ReadContext, RecordId } from "#connector.ts";
import { InputError } from "#errors.ts";
import { DirectoryApi, reading } from "#http/directory/api.ts";
import type { Authorization } from "#http/directory/authorization.ts";
import { authorizationOf, connectionOf, fileReader } from "#http/directory/options.ts";
import { pagesOf } from "#http/directory/pages.ts";
import { describeConnection } from "#http/trust.ts";
import { didYouMean, pluralize } from "#text.ts";
import { idIn } from "./entries.ts";
import { canFind, find } from "./find.ts";
import { listOf } from "./lists.ts";
import type { Declared, Found } from "./lists.ts";
import { options, originsOf } from "./options.ts";
import type { ListOptions, Options } from "./options.ts";
import { questions } from "./questions.ts";
import { recordsOf } from "./read.ts";

/** Users and groups from any service that lists them in JSON or CSV over HTTP. Its options: `README.md` in this folder. */
const http: Connector<Options> = {
  name: "http",
  options,
  questions,
  open: (options, place) => {
    const authorization = authorizationOf(options.auth, fileReader(place.folder));
    const lists = [options.users, options.groups, options.memberships];
    const isDivided = lists.every((list) => list === undefined || list.next !== undefined);
    return {
      read: (context) => {
        const records = reading(
          () => {
            assertDeclared(options, place, context);
            return openApi(options, authorization, place, context);
          },
          (api) => recordsOf(api, options, context),
        );
        return Enough.check(records, options, place, context);
      },
      recheck: ({ records }, context) => Enough.check(records, options, place, context),
      describe: (context) => describe(options, authorization, place, context),
      paged: true,
      // One answer may hold two records with one id.
      ...(isDivided && { uniqueIds: true }),
      ...(canFind(options) && {
        find: (records, context) =>
          reading(
            () => openApi(options, authorization, place, context),
            (api) => find(api, options, records, context),
          ),
      }),
    };
  },
};

export default http;

/** @throws {InputError} a file of certificates cannot be read */
function openApi(
  options: Options,
  authorization: Authorization,
  { name, folder }: OpenContext,
  context: ReadContext,
): DirectoryApi {
  return new DirectoryApi(
    {
      subject: `source ${name}`,
      origins: originsOf(options),
      authorization,
      ...connectionOf(options, folder),
      headers: { accept: "application/json, application/x-ndjson, text/csv, */*;q=0.5", ...options.headers },
    },
    context,
  );
}

/** @throws {InputError} a rule needs an attribute, and the options, which list attributes, do not say where it is */
function assertDeclared(options: Options, { name: source }: OpenContext, { required }: ReadContext): void {
  for (const kind of ["users", "groups"] as const) {
    const { attributes, optionalAttributes = [] } = options[kind] ?? {};
    if (attributes === undefined) continue;
    const declared = Object.keys(attributes);
    const missing = required?.[kind].find((name) => ![...declared, ...optionalAttributes].includes(name));
    if (missing === undefined) continue;
    throw new InputError(
      `source ${source}: a rule reads entry.${missing}, and ${kind}: { attributes } does not say where it is; ${didYouMean(missing, declared)}`,
    );
  }
}

/** The service, its protection, the login, and what the first page of each list has. */
async function describe(
  options: Options,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): Promise<readonly string[]> {
  await using api = openApi(options, authorization, open, context);
  const lines: string[] = [];
  for (const [name, list, id] of [
    ["user", options.users, options.users],
    ["group", options.groups, options.groups],
    ["membership", options.memberships, undefined],
  ] as const) {
    if (list === undefined) continue;
    const idOf = (found: Found): string => (id === undefined ? "" : idIn(found, id));
    const ids = "group" in list ? [list.group, list.member] : [list.id];
    const { line, first } = await firstPage(api, options, list, { name, ids, idOf });
    lines.push(line);
    if (name !== "membership" && first !== undefined && id?.find !== undefined) {
      await assertFound(api, options, { kind: name, id: first }, context);
      lines.push(`a ${name} of it is found by its id (find)`);
    }
  }
  return [`${options.url}, ${describeConnection(api.socket())}`, `as ${authorization.who}`, ...lines];
}

/** @throws {InputError} who is in the list is not found by the id: everybody would seem to be gone */
async function assertFound(api: DirectoryApi, options: Options, record: RecordId, context: ReadContext): Promise<void> {
  for await (const found of find(api, options, [record], context)) if (found.length > 0) return;
  const { kind, id } = record;
  throw new InputError(
    `${api.subject}: the ${kind} ${id} is in the list and not found by its id, as if it were gone; check the url and the where of ${kind}s: { find }`,
  );
}

async function firstPage(
  api: DirectoryApi,
  options: Options,
  list: ListOptions,
  { name, ids, idOf }: Pick<Declared, "ids"> & { readonly name: string; readonly idOf: (found: Found) => string },
): Promise<{ readonly line: string; readonly first?: string | undefined }> {
  // A full page is not asked for again: this is no read.
  const proven = listOf(api, { options, list: { ...list, size: undefined }, ids }, idOf);
  for await (const { items, total } of pagesOf(api, proven)) {
    const [first] = items.map(idOf);
    const all = total === undefined ? "" : ` of ${total}`;
    const where = `${proven.url.origin}${proven.url.pathname}`;
    return { line: `${pluralize(items.length, name)}${all} on the first page of ${where}`, first };
  }
  return { line: `no ${name}s at ${proven.url.origin}${proven.url.pathname}` };
}
