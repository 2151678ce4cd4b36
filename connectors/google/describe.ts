import type { ReadContext } from "#connector.ts";
import { RefusedError } from "#errors.ts";
import { describeConnection } from "#http/trust.ts";
import type { ServiceAccount } from "./access.ts";
import { Lists } from "./lists.ts";
import type { Options } from "./options.ts";

/**
 * The connection, whose rights are used and what they reach.
 * @throws {RefusedError} something is missing; the message says what to grant
 * @throws what `DirectoryApi.get` throws
 */
export async function describe(
  options: Options,
  account: ServiceAccount,
  context: ReadContext,
): Promise<readonly string[]> {
  const api = account.open(context);
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
    const missing = error instanceof RefusedError && error.status === 401 ? await account.missingScopes(context) : [];
    if (missing.length === 0) throw error;
    throw new RefusedError(
      `source: the service account may not ask for ${missing.join(" and ")}: ${account.delegation()}`,
      { status: 401, cause: error },
    );
  } finally {
    await api.close();
  }
}
