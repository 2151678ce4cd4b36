import { Enough } from "#completeness.ts";
import type { Connector, Entry, ReadContext, RecordId, SourceRecord } from "#connector.ts";
import { RefusedError } from "#errors.ts";
import { reading } from "#http/directory/api.ts";
import { inParallel } from "#http/directory/pages.ts";
import { describeConnection } from "#http/trust.ts";
import { ServiceAccount } from "./access.ts";
import { Lists } from "./lists.ts";
import { options } from "./options.ts";
import type { Options } from "./options.ts";

/** Users and groups of Google Workspace, from the Directory API. Its options: `README.md` in this folder. */
const google: Connector<Options> = {
  name: "google",
  options,
  questions: [
    { option: "key.file", label: "key", message: "File with the JSON key of the service account:" },
    { option: "subject", label: "administrator", message: "Address of the administrator for whom it reads:" },
  ],
  open: (options, place) => {
    const account = new ServiceAccount(options, place);
    return {
      read: (context) => {
        const records = reading(
          () => account.open(context),
          (api) => recordsOf(new Lists(api, options, context), options),
        );
        return Enough.check(records, options, place, context);
      },
      recheck: ({ records }, context) => Enough.check(records, options, place, context),
      find: (records, context) =>
        reading(
          () => account.open(context),
          (api) => find(new Lists(api, options, context), options, records),
        ),
      describe: (context) => describe(options, account, context),
      uniqueIds: true,
      paged: true,
    };
  },
};

export default google;

/** Groups come first: a user may be in some of them for being a user. */
async function* recordsOf(lists: Lists, { groups }: Options): AsyncGenerator<readonly SourceRecord[]> {
  const everybody: string[] = [];
  if (groups !== false) yield* lists.groups(everybody);
  yield* lists.users(everybody);
}

async function* find(
  lists: Lists,
  { groups }: Options,
  records: readonly RecordId[],
): AsyncGenerator<readonly Entry[]> {
  const wanted = records.filter(({ kind }) => kind === "user" || groups !== false);
  for await (const entry of inParallel(wanted, 4, (record) => lists.byId(record)))
    if (entry !== undefined) yield [entry];
}

/**
 * The connection, whose rights are used and what they reach.
 * @throws {RefusedError} something is missing; the message says what to grant
 * @throws what `DirectoryApi.get` throws
 */
async function describe(options: Options, account: ServiceAccount, context: ReadContext): Promise<readonly string[]> {
  await using api = account.open(context);
  const lists = new Lists(api, options, context);
  try {
    const subject = await lists.subject();
    await lists.first("users");
    const group = options.groups === false ? undefined : await lists.first("groups");
    const rights =
      subject === undefined
        ? "who is not in this directory: it must be another customer's administrator"
        : subject["isAdmin"] === true
          ? "a super administrator"
          : "a delegated administrator: the role must cover all organizational units, or users are missing without an error";
    const groups =
      options.groups === false
        ? "groups are not read"
        : group === undefined
          ? "no group"
          : "groups and members can be read";
    return [
      `${options.endpoints.directory}, ${describeConnection(api.socket())}`,
      `as ${account.who}, ${rights}`,
      `customer ${options.customer}: users can be read, ${groups}; Google doesn't say how many there are`,
    ];
  } catch (error) {
    const isScope = error instanceof RefusedError && error.status === 401;
    throw isScope ? await account.explained(error, context) : error;
  }
}
