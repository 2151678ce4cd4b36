import { randomBytes } from "node:crypto";
import { createQueue } from "./queue.ts";

/** The parameters OWASP recommends for argon2id, which the library takes by default; `memoryCost` in KiB. */
export const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** These use Node's thread pool, which DuckDB and files need too: two at a time leave most of it free. */
const queue = createQueue(2);

/** Loaded with the first password: it takes 3 MiB, and most processes see none. */
const library = () => import("@node-rs/argon2");

/**
 * The argon2id hash of a password in PHC form, with a salt of its own (B.7).
 * @param signal stops waiting
 */
export function hashPassword(password: string, signal?: AbortSignal): Promise<string> {
  return queue(async () => (await library()).hash(password, cost), signal);
}

/** A hash that matches no password; checking against it takes as long as any other check. */
export function hashOfNobody(): string {
  const { memoryCost, timeCost, parallelism } = cost;
  const [salt, bytes] = [16, 32].map((length) => randomBytes(length).toString("base64").replaceAll("=", ""));
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${salt}$${bytes}`;
}

/**
 * Whether a password matches an argon2id hash in PHC form. Takes equally long for a wrong one.
 * @throws {Error} when it is no such hash
 */
export async function verifyPassword(known: string, password: string): Promise<boolean> {
  if (!known.startsWith("$argon2id$")) throw new Error("a stored password is not an argon2id hash");
  return queue(async () => (await library()).verify(known, password));
}
