import { BlockList, isIP } from "node:net";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/**
 * Is what is sent to this host certain not to leave this machine? A name or an address, IPv6 with or without brackets,
 * also one that carries an IPv4 address (`::ffff:127.0.0.1`). Of names only `localhost`: what others mean, may change.
 */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const version = isIP(bare);
  if (version === 0) return bare.toLowerCase() === "localhost";
  return loopback.check(bare, version === 4 ? "ipv4" : "ipv6");
}
