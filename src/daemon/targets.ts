import { Client } from "#client/client.ts";
import type { ClientOptions } from "#client/client.ts";
import { Loads } from "#client/loads.ts";
import type { LoadsOptions } from "#client/loads.ts";
import { openTarget } from "#client/target.ts";
import type { Configuration, RemoteTarget, SyncConfiguration } from "#config/configuration.ts";
import { attributesOf, isConnected } from "#config/targets.ts";
import type { ListTarget, Target } from "#connector.ts";
import { InputError, RefusedError } from "#errors.ts";
import { readAuthorities } from "#files/certificates.ts";
import type { Stages } from "#plan/stages.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Embedded } from "./embedded.ts";
import { listOf } from "./output.ts";

/** What every service has from its first start, and no sync may change (0.7). */
const builtIn = { users: ["admin"], groups: ["Administrator", "All"] };

export async function openConfiguredTarget(
  configuration: Configuration,
  name: string,
  embedded: Embedded,
  observe?: ClientOptions["observe"],
): Promise<Target> {
  const target = configuration.targets[name];
  if (isConnected(target)) return target.connector.open(target.options, { name, folder: configuration.folder });
  if (target === "embedded") return openEmbedded(name, embedded, observe);
  return openTarget(await clientOptionsOf(configuration, name, embedded, observe));
}

/** The service of the data folder as a target. It may have to be started, which goes on until the target is first asked. */
function openEmbedded(name: string, embedded: Embedded, observe: ClientOptions["observe"]): ListTarget {
  const starting = embeddedOptions(name, embedded).then((options) => openTarget({ ...options, observe }));
  starting.catch(() => undefined);
  return {
    takes: "list",
    name,
    list: async (read, signal) => (await starting).list(read, signal),
    isStill: async (tag, signal) => (await starting).isStill?.(tag, signal) ?? false,
    sync: async (request, destination, signal) => (await starting).sync(request, destination, signal),
    check: async (signal) => (await starting).check(signal),
    close: async () => {
      const started = await starting.catch(() => undefined);
      await started?.close();
    },
  };
}

/** What the users and groups of a target have. @throws {InputError} no target has the name */
export function declaredBy({ targets }: Configuration, name: string): Attributes {
  if (targets[name] === undefined) throw unknownTarget(targets, name);
  return attributesOf(targets[name]);
}

function unknownTarget(targets: Configuration["targets"], name: string): InputError {
  return new InputError(`no target is called ${name}: ${listOf(Object.keys(targets))}`);
}

/** What identifies a target: `embedded` for the service of this data folder, otherwise its URL. */
export function placeOf(configuration: Configuration, name: string): string {
  const target = configuration.targets[name];
  if (isConnected(target)) return target.connector.place(target.options);
  return target === undefined || target === "embedded" ? "embedded" : `${new URL(target.url).origin}${target.prefix}`;
}

/** The account that a sync logs in with, and the groups and users of every service: its own sync never deletes them (0.7). */
export function ownOf(configuration: Configuration, name: string): SyncConfiguration["protect"] {
  if (isConnected(configuration.targets[name])) return { users: [], groups: [] };
  return { users: [...builtIn.users, callerOf(configuration, name)], groups: builtIn.groups };
}

function callerOf(configuration: Configuration, name: string): string {
  const target = configuration.targets[name];
  if (target === undefined || isConnected(target) || target === "embedded")
    return configuration.service?.administrator.name ?? "admin";
  return target.username;
}

/** The groups whose members are administrators (0.6); for a remote service, the one that every service has. */
export function administratorsOf({ targets, service }: Configuration, name: string): readonly string[] {
  if (isConnected(targets[name])) return [];
  const own = targets[name] === "embedded" ? (service?.privileges.administration ?? []) : [];
  return [...new Set(["Administrator", ...own])];
}

/** The client options for a target of the configuration. @throws {InputError} when there is no such target */
async function clientOptionsOf(
  configuration: Configuration,
  name: string,
  embedded: Pick<Embedded, "access">,
  observe?: ClientOptions["observe"],
): Promise<ClientOptions> {
  const target = configuration.targets[name];
  if (target === undefined) throw unknownTarget(configuration.targets, name);
  if (isConnected(target)) throw new InputError(`the target ${name} is no service: it has users and groups alone`);
  if (target === "embedded") return { ...(await embeddedOptions(name, embedded)), observe };
  const { url, username, password, prefix, ca, proxy } = target;
  return {
    name,
    url,
    prefix,
    credentials: { username, password },
    ca: ca === undefined ? undefined : readAuthorities(ca, `target ${name}: ca: ${ca}`),
    proxy,
    observe,
  };
}

/** How long a target may take to check an account, in milliseconds. */
const verifying = 20_000;

/**
 * Logs in to a target with a person's account, and out again.
 * @throws {RollcallError} when the target does not answer, or as it should not
 */
export async function verifyAccount(
  configuration: Configuration,
  { target, username, password }: { readonly target: string; readonly username: string; readonly password: string },
  embedded: Pick<Embedded, "access">,
): Promise<"administrator" | "user" | "wrong"> {
  const options = await clientOptionsOf(configuration, target, embedded);
  const client = new Client({ ...options, credentials: { username, password }, retries: { attempts: 1 } });
  const signal = AbortSignal.timeout(verifying);
  try {
    await client.login(signal);
    await client.reach(signal);
    return "administrator";
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    if (error.status === 401) return "wrong";
    if (error.status === 403) return "user";
    throw error;
  } finally {
    await client.logout(signal).catch(() => undefined);
  }
}

/** The client options for the service of the data folder. */
export async function embeddedOptions(name: string, embedded: Pick<Embedded, "access">): Promise<ClientOptions> {
  const { url, session, administrator, certificate } = await embedded.access();
  return {
    name,
    url,
    prefix: "",
    // This program's own service understands it.
    form: "multipart",
    credentials: {
      session,
      username: administrator,
      // A restarted service has a new session.
      renew: async () => {
        const access = await embedded.access();
        return access.session;
      },
    },
    ca: certificate,
    pinned: certificate !== undefined,
    proxy: false,
  };
}

/** The loads of a target, with its name. */
export interface ConfiguredLoads {
  readonly loads: Loads;
  readonly target: string;
  /** The service of the data folder. */
  readonly isEmbedded: boolean;
}

/**
 * Opens the loads of a target of the configuration; without a name, of the only target or the embedded service. Close
 * them after use.
 * @param settings.nodes hosts that a load may be sent to, in addition to those of the configuration
 * @throws {InputError}
 */
export async function openConfiguredLoads(
  configuration: Configuration,
  name: string | undefined,
  embedded: Embedded,
  settings: Pick<LoadsOptions, "fileChunk"> & {
    readonly log: (message: string) => void;
    readonly nodes?: readonly string[] | undefined;
  },
): Promise<ConfiguredLoads> {
  const target = name ?? usualTarget(configuration);
  const isEmbedded = target === undefined || configuration.targets[target] === "embedded";
  const title = target ?? "embedded";
  const configured = configuration.targets[title];
  const listed = isRemote(configured) ? configured.nodes : [];
  const options = isEmbedded
    ? await embeddedOptions(title, embedded)
    : await clientOptionsOf(configuration, title, embedded);
  const loads = new Loads({
    ...options,
    log: settings.log,
    fileChunk: settings.fileChunk,
    // The embedded service is a single node, whatever address it announces.
    nodes: isEmbedded ? "stay" : [...listed, ...(settings.nodes ?? [])],
  });
  return { loads, target: title, isEmbedded };
}

function isRemote(target: Configuration["targets"][string] | undefined): target is RemoteTarget {
  return typeof target === "object" && !isConnected(target);
}

/** The targets of the configuration that are services: people have accounts there. */
export function servicesOf({ targets }: Pick<Configuration, "targets">): readonly string[] {
  return Object.keys(targets).filter((name) => !isConnected(targets[name]));
}

/** The target to use when none is named; undefined: the embedded service, which no target names. */
function usualTarget({ file, service, targets }: Configuration): string | undefined {
  const names = servicesOf({ targets });
  const embedded = names.filter((name) => targets[name] === "embedded");
  const [only, ...more] = embedded.length > 0 ? embedded : names;
  if (only !== undefined && (more.length === 0 || embedded.length > 0)) return only;
  if (names.length > 0) throw new InputError(`which target? Name one with --target: ${names.join(", ")}`);
  if (service === undefined) throw new InputError(`${file} has no target, and no \`service:\` either`);
  return undefined;
}

/** When those who leave the sources of a sync are suspended and deleted. */
export async function stagesOf(configuration: Configuration, { deletions, to }: SyncConfiguration): Promise<Stages> {
  const { targets, folder } = configuration;
  const target = targets[to];
  if (!isConnected(target)) return deletions;
  const opened = target.connector.open(target.options, { name: to, folder });
  try {
    return { ...deletions, ...neverDeleted(deletions, opened) };
  } finally {
    await opened.close();
  }
}

/** What a target cannot delete is never deleted. */
export function neverDeleted({ never = [] }: Stages, target: Target): Pick<Stages, "never"> {
  if (target.takes === "list") return {};
  const { deletes } = target.abilities;
  return { never: [...new Set([...never, ...(["user", "group"] as const).filter((kind) => !deletes[kind])])] };
}
