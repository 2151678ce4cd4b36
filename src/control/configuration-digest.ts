import { createHmac } from "node:crypto";
import type { Configuration } from "#config/configuration.ts";

/**
 * Tells whether two processes have the same configuration. The files that it names are not in it, but for the secrets.
 * @param token the daemon's: whoever does not know it learns nothing of secrets from the digest
 */
export function configurationDigest(configuration: Configuration, token: string): string {
  const { sources, ...rest } = configuration;
  const plain = Object.entries(sources).map(([name, { connector, ...source }]) => [name, connector.name, source]);
  return createHmac("sha256", token)
    .update(JSON.stringify([rest, plain]))
    .digest("hex");
}
