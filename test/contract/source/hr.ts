import { z } from "zod";
import { IncompleteReadError, InputError, messageOf, RefusedError, UnavailableError } from "rollcall/connector";
import type { Connector, Entry, ReadContext } from "rollcall/connector";

const options = z.strictObject({
  url: z.url().describe("Where the HR system answers, with a slash at the end."),
  token: z.string().min(1).describe("The token it asks for."),
});
type Options = z.infer<typeof options>;

const item = z.object({ id: z.string().min(1), teams: z.array(z.string()) }).catchall(z.string());
type Item = z.infer<typeof item>;

/** One page of a list. The revision changes with every change to the directory. */
const page = z.object({ revision: z.string(), total: z.int(), items: z.array(item) });
type Page = z.infer<typeof page>;

const lists = [
  { kind: "user", path: "people" },
  { kind: "group", path: "teams" },
] as const;

const hr: Connector<Options> = {
  name: "hr",
  options,
  open: (options) => ({ read: (context) => read(options, context) }),
};

export default hr;

async function* read(options: Options, { signal }: ReadContext): AsyncGenerator<readonly Entry[]> {
  let revision: string | undefined;
  for (const { kind, path } of lists) {
    let received = 0;
    for (let number = 1, total = 1; received < total; number++) {
      const url = new URL(`${path}?page=${number}`, options.url).href;
      const answer = await get(url, options.token, signal);
      revision ??= answer.revision;
      if (answer.revision !== revision) throw new IncompleteReadError(`${url}: the directory changed meanwhile`);
      total = answer.total;
      received += answer.items.length;
      // Fewer than there are would look like deletions.
      if (received > total || (received < total && answer.items.length === 0)) {
        throw new IncompleteReadError(`${url}: received ${received} of ${total} ${path}`);
      }
      yield answer.items.map((item) => entry(kind, item, url));
    }
  }
}

function entry(kind: Entry["kind"], { id, teams, ...attributes }: Item, url: string): Entry {
  return { kind, id, origin: `${url}, ${id}`, attributes, keys: [id], memberOf: teams, members: [] };
}

async function get(url: string, token: string, signal: AbortSignal): Promise<Page> {
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal });
    body = response.ok ? await response.json() : undefined;
  } catch (error) {
    signal.throwIfAborted();
    throw new UnavailableError(`${url}: no complete answer: ${messageOf(error)}`, { cause: error });
  }
  const { status } = response;
  if (status === 401 || status === 403) throw new RefusedError(`${url}: the token was refused`, { status });
  if (!response.ok) throw new UnavailableError(`${url}: answered ${status}`);
  const parsed = page.safeParse(body);
  if (!parsed.success) throw new InputError(`${url}: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
