import { readFile } from "node:fs/promises";
import type { ClientOptions } from "#client/context.ts";
import type { Configuration } from "#config/configuration.ts";
import { InputError, messageOf } from "#errors.ts";
import type { Embedded } from "#cli/data/embedded.ts";
import { listOf } from "#cli/output.ts";

/** How a client reaches a target of the configuration. @throws {InputError} there is no such target */
export async function clientOptionsOf(
  configuration: Configuration,
  name: string,
  embedded: Embedded,
  observe?: ClientOptions["observe"],
): Promise<ClientOptions> {
  const target = configuration.targets[name];
  if (target === undefined)
    throw new InputError(`no target is called ${name}: ${listOf(Object.keys(configuration.targets))}`);
  const observing = observe === undefined ? {} : { observe };
  if (target === "embedded") return { ...(await embeddedOptions(name, embedded)), ...observing };
  const { url, username, password, prefix, ca } = target;
  return {
    name,
    url,
    prefix,
    credentials: { username, password },
    ...(ca === undefined ? {} : { ca: await readCertificate(ca, name) }),
    ...observing,
  };
}

/** How a client reaches the service of the data folder. */
export async function embeddedOptions(name: string, embedded: Embedded): Promise<ClientOptions> {
  const { url, session, certificate } = await embedded.access();
  return {
    name,
    url,
    prefix: "",
    // It is this program's own service.
    form: "multipart",
    credentials: {
      session,
      // A service that was started again in the meantime has another session to give.
      renew: async () => {
        const access = await embedded.access();
        return access.session;
      },
    },
    ...(certificate === undefined ? {} : { ca: certificate, pinned: true }),
  };
}

/** The authorities in a file that `ca` names. @throws {InputError} when it cannot be read */
export async function readCertificate(file: string, target: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new InputError(`target ${target}: the file of \`ca\` cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
