import { InputError } from "#errors.ts";
import { jsonIn } from "#http/client.ts";
import type { Kind } from "#connector.ts";
import type { Server } from "../client.ts";
import { objectOf } from "../resource.ts";
import type { Resource } from "../schema.ts";
import { isUnavailable, serviceProviderConfig } from "../server.ts";
import type { ServiceProvider } from "../server.ts";
import { coreSchemas } from "../schema.ts";
import type { Field } from "./attributes.ts";
import { itemsOf, member } from "./paths.ts";
import type { Profile } from "./profiles.ts";

/** What a server says of itself (RFC 7643, 5 to 7). */
export interface Capabilities extends ServiceProvider {
  /** Where its users and groups are, below its URL. Undefined: it has none. */
  readonly paths: Readonly<Record<Kind, string | undefined>>;
  /** What /Schemas says against an attribute: `the server does not have it`. Undefined: nothing. */
  objection(field: Field, kind: Kind): string | undefined;
}

/**
 * Asks a server what it supports. What it does not say is not known to be missing.
 * @param trustsSchemas false: its /Schemas are not asked for
 * @throws what `Server.ask` throws
 */
export async function capabilitiesOf(
  server: Server,
  { trustsSchemas }: Pick<Profile, "trustsSchemas">,
): Promise<Capabilities> {
  const provider = await serviceProviderConfig(server);
  const schemas: Schemas = trustsSchemas ? await schemasOf(server) : new Map();
  const paths = pathsIn(await described(server, "ResourceTypes"), server);
  return { ...provider, paths, objection: (field, kind) => objectionIn(schemas, field, kind) };
}

const usual: Readonly<Record<Kind, string>> = { user: "Users", group: "Groups" };

/** @param types none: the server does not say what it has */
function pathsIn(types: readonly unknown[], server: Server): Capabilities["paths"] {
  const endpointOf = (kind: Kind): string | undefined => {
    const type = types.find((each) => new RegExp(`^${kind}$`, "i").test(String(member(each, "name"))));
    const endpoint = member(type, "endpoint");
    if (typeof endpoint !== "string") return undefined;
    // Relative to the server's URL; some servers write all of it, or its whole path. What leads elsewhere is not followed.
    const { pathname } = server.base;
    const isWhole = pathname !== "/" && endpoint.startsWith(pathname);
    const { href } = new URL(isWhole ? endpoint : endpoint.replace(/^\/+/, ""), server.base);
    return href.startsWith(server.base.href) ? href.slice(server.base.href.length) : usual[kind];
  };
  const user = endpointOf("user");
  return user === undefined ? usual : { user, group: endpointOf("group") };
}

/** The resources of a list that describes the server; none: it has no such list. */
async function described(server: Server, path: string): Promise<readonly unknown[]> {
  const answer = await server.ask<unknown>({
    path,
    parameters: {},
    use: async ({ body }) => {
      try {
        return await jsonIn({ body }, 8 * 1024 * 1024);
      } catch (error) {
        if (error instanceof SyntaxError) return undefined;
        throw error;
      }
    },
    refused: ({ status }) => (isUnavailable(status) ? { value: undefined } : undefined),
  });
  return itemsOf(Array.isArray(answer) ? answer : member(answer, "Resources"));
}

/** The attributes of each schema by its URN, in small letters. */
type Schemas = ReadonlyMap<string, readonly Resource[]>;

async function schemasOf(server: Server): Promise<Schemas> {
  return new Map(
    (await described(server, "Schemas")).flatMap((item) => {
      const { id, attributes } = objectOf(item) ?? {};
      return typeof id === "string" && Array.isArray(attributes)
        ? [[id.toLowerCase(), attributes as readonly Resource[]]]
        : [];
    }),
  );
}

/** Attributes that every resource has, without its schema saying so (RFC 7643, 3.1). */
const common = new Set(["externalid"]);

function objectionIn(schemas: Schemas, { path }: Field, kind: Kind): string | undefined {
  if (path.urn === undefined && common.has(path.attribute.toLowerCase())) return undefined;
  // A server without schemas says nothing; one without the core's says nothing of its extensions either.
  const known = schemas.get(coreSchemas[kind].toLowerCase());
  if (known === undefined) return undefined;
  const attributes = path.urn === undefined ? known : schemas.get(path.urn.toLowerCase());
  if (attributes === undefined) return `the server has no schema ${path.urn}`;
  let found = named(attributes, path.attribute);
  const sub = found === undefined || path.type !== undefined ? undefined : path.sub;
  if (isReadOnly(found)) return "it is read-only on the server";
  if (sub !== undefined) found = named(itemsOf(member(found, "subAttributes")), sub);
  if (found === undefined) return "the server does not have it";
  return isReadOnly(found) ? "it is read-only on the server" : undefined;
}

function isReadOnly(attribute: Resource | undefined): boolean {
  return String(member(attribute, "mutability")).toLowerCase() === "readonly";
}

function named(attributes: readonly Resource[], name: string): Resource | undefined {
  return attributes.find((attribute) => String(member(attribute, "name")).toLowerCase() === name.toLowerCase());
}

/** @throws {InputError} rules set an attribute that the server says it does not take */
export function assertTaken(
  subject: string,
  capabilities: Capabilities,
  fields: readonly (readonly [Kind, Field])[],
): void {
  const problems = fields.flatMap(([kind, field]) => {
    const objection = capabilities.objection(field, kind);
    return objection === undefined ? [] : [`${kind}s: ${field.attribute.name}: ${objection} (its /Schemas)`];
  });
  if (problems.length === 0) return;
  throw new InputError(
    `${subject}: rules set attributes that the server does not take: ${problems.join("; ")}. Remove them from the rules, or, if the server takes them, write profile: { trustsSchemas: false }`,
    { problems },
  );
}
