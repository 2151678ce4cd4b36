import type { ObjectTarget, OpenContext, ReadContext, TargetConnector } from "#connector.ts";
import { UnavailableError } from "#errors.ts";
import { authorizationOf, fileReader } from "#http/directory/options.ts";
import type { Authorization } from "#http/directory/authorization.ts";
import { describeConnection } from "#http/trust.ts";
import { formatNumber, pluralize } from "#text.ts";
import { Server } from "../client.ts";
import { pageOf } from "../list.ts";
import { fieldsOf, Mapping } from "./attributes.ts";
import { capabilitiesOf } from "./capabilities.ts";
import type { Capabilities } from "./capabilities.ts";
import { authOf, options, profileName, profileOf } from "./options.ts";
import type { Options } from "./options.ts";
import type { Profile } from "./profiles.ts";
import { pathOfKind, read } from "./read.ts";
import type { Reading } from "./read.ts";
import { Writer } from "./write.ts";

/** Applications that speak SCIM 2.0. The options: `README.md` in the folder above. */
const scim: TargetConnector<Options> = {
  name: "scim",
  options,
  declare: (options) => fieldsOf(options.attributes, profileOf(options)).map(({ attribute }) => attribute),
  place: ({ url }) => new URL(url.replace(/\/*$/, "/")).href,
  open: (options, context) => new ScimTarget(options, context),
};

export default scim;

interface Writing {
  readonly server: Server;
  readonly writer: Writer;
}

class ScimTarget implements ObjectTarget {
  readonly takes = "changes";
  readonly name: string;
  readonly abilities: ObjectTarget["abilities"];
  readonly #options: Options;
  readonly #context: OpenContext;
  readonly #profile: Profile;
  readonly #mapping: Mapping;
  readonly #authorization: Authorization;
  readonly #closing = new AbortController();
  /** What the server says of itself, once it was asked. */
  #capabilities: Capabilities | undefined;
  /** What writes, once something is written. */
  #writing: Promise<Writing> | undefined;
  /** Where the run that reads shows its warnings. */
  #warn: (message: string) => void = () => undefined;

  constructor(options: Options, context: OpenContext) {
    const profile = profileOf(options);
    this.name = context.name;
    this.#options = options;
    this.#context = context;
    this.#profile = profile;
    this.#mapping = new Mapping(fieldsOf(options.attributes, profile));
    this.#authorization = authorizationOf(authOf(options), fileReader(context.folder));
    this.abilities = {
      membersPerChange: profile.membersPerPatch,
      concurrency: profile.concurrency,
      perMinute: profile.perMinute === 0 ? undefined : profile.perMinute,
      readsMembers: profile.members !== "hidden",
      nestsGroups: profile.nestsGroups,
      deletes: profile.deletes,
      renames: profile.renames,
    };
  }

  async *read(context: ReadContext): ReturnType<ObjectTarget["read"]> {
    this.#warn = context.warn;
    await using server = this.#server(context);
    yield* read(await this.#reading(server), context);
    context.signal.throwIfAborted();
  }

  async current(...[kind, id, signal]: Parameters<ObjectTarget["current"]>): ReturnType<ObjectTarget["current"]> {
    const { writer } = await this.#write(signal);
    return writer.current(kind, id, signal);
  }

  async write(...[change, signal]: Parameters<ObjectTarget["write"]>): ReturnType<ObjectTarget["write"]> {
    const { writer } = await this.#write(signal);
    return writer.write(change, signal);
  }

  #write(signal: AbortSignal): Promise<Writing> {
    signal.throwIfAborted();
    this.#writing ??= this.#startWriting().catch((error: unknown) => {
      this.#writing = undefined;
      throw error;
    });
    return this.#writing;
  }

  async #startWriting(): Promise<Writing> {
    // A run may write for longer than a read may take.
    const timeouts = { ...this.#options.timeouts, read: Infinity };
    const context = { signal: this.#closing.signal, warn: (message: string) => this.#warn(message) };
    const server = this.#server(context, timeouts);
    try {
      return { server, writer: new Writer(await this.#reading(server)) };
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  #server(context: Pick<ReadContext, "signal" | "warn">, timeouts = this.#options.timeouts): Server {
    const address = { ...this.#options, timeouts, concurrency: this.#profile.concurrency };
    return new Server(address, this.#authorization, { ...this.#context, isTarget: true }, context);
  }

  async #reading(server: Server): Promise<Reading> {
    this.#capabilities ??= await capabilitiesOf(server, this.#profile);
    return { server, capabilities: this.#capabilities, mapping: this.#mapping, profile: this.#profile };
  }

  async check(signal: AbortSignal): Promise<readonly string[]> {
    await using server = this.#server({ signal, warn: this.#warn });
    const reading = await this.#reading(server);
    const counts: string[] = [];
    for (const kind of ["user", "group"] as const)
      counts.push(reading.capabilities.paths[kind] === undefined ? `no ${kind}s` : await countOf(reading, kind));
    return [
      `${server.base.href}, ${describeConnection(server.socket())}`,
      `as ${this.#authorization.who}`,
      `a SCIM server with ${counts.join(" and ")}`,
      `profile ${profileName(this.#options)}: ${this.#summary(reading)}`,
      ...this.#objections(reading),
    ];
  }

  #summary({ capabilities }: Reading): string {
    const { update, members, membersPerPatch, perMinute } = this.#profile;
    const isWhole = update === "put" || (update === "auto" && capabilities.patches === false);
    return [
      isWhole
        ? "objects are replaced (PUT)"
        : `changes by PATCH, up to ${pluralize(membersPerPatch, "member")} at a time`,
      members === "hidden" ? "the server does not show who is in a group, so memberships cannot be verified" : "",
      perMinute === 0 ? "" : `up to ${formatNumber(perMinute)} changes a minute`,
    ]
      .filter((part) => part !== "")
      .join("; ");
  }

  #objections({ capabilities }: Reading): readonly string[] {
    if (!this.#profile.trustsSchemas) return [];
    return (["user", "group"] as const).flatMap((kind) => {
      const missing = this.#mapping.of(kind).flatMap((field) => {
        const objection = capabilities.objection(field, kind);
        return objection === undefined ? [] : [field.attribute.name];
      });
      return missing.length === 0 ? [] : [`its ${kind}s do not take: ${missing.join(", ")}`];
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new UnavailableError(`target ${this.name}: it was closed`));
    const writing = await this.#writing?.catch(() => undefined);
    await writing?.server.close();
  }
}

/** How many the server says that there are, for a person. */
async function countOf(reading: Reading, kind: "user" | "group"): Promise<string> {
  const page = pageOf(reading.server, { path: pathOfKind(reading, kind), parameters: { count: "1" } });
  let step = await page.next();
  while (step.done !== true) step = await page.next();
  const total = typeof step.value === "string" ? undefined : step.value.totalResults;
  return total === undefined ? `${kind}s, it does not say how many` : pluralize(total, kind);
}
