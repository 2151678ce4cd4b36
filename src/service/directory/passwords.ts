import { argon2, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { createQueue } from "#queue.ts";

/** The parameters OWASP recommends for argon2id; `memory` in KiB. */
const cost = { memory: 19_456, passes: 2, parallelism: 1 };
const saltLength = 16;
const hashLength = 32;

const derive = promisify(argon2);

/** Hashing uses Node's thread pool, which DuckDB and files need too: two at a time leave half of it free. */
const width = 2;
const queue = createQueue(width);

/**
 * The argon2id hash of a password in PHC form, with a salt of its own (B.7).
 * @param signal stops waiting
 */
export async function hashPassword(password: string, signal?: AbortSignal): Promise<string> {
  const nonce = randomBytes(saltLength);
  const hash = await queue(
    () => derive("argon2id", { message: password, nonce, ...cost, tagLength: hashLength }),
    signal,
  );
  return format(nonce, hash);
}

/**
 * The hashes of many passwords, in their order. No more of them wait than can be hashed at once: whoever logs in meanwhile
 * waits for one of them, not for all.
 */
export async function hashAll(passwords: readonly string[], signal?: AbortSignal): Promise<string[]> {
  const hashes: string[] = [];
  const left = passwords.entries();
  const work = async (): Promise<void> => {
    for (const [index, password] of left) hashes[index] = await hashPassword(password, signal);
  };
  await Promise.all(Array.from({ length: width }, work));
  return hashes;
}

/** A hash that matches no password; checking against it takes as long as any other check. */
export function hashOfNobody(): string {
  return format(randomBytes(saltLength), randomBytes(hashLength));
}

function format(nonce: Buffer, hash: Buffer): string {
  const { memory, passes, parallelism } = cost;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${unpadded(nonce)}$${unpadded(hash)}`;
}

/**
 * Whether a password matches an argon2id hash in PHC form. Takes equally long for a wrong one.
 * @throws {Error} when it is no such hash
 */
export async function verifyPassword(hash: string, password: string): Promise<boolean> {
  const parts = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/.exec(hash);
  if (parts === null) throw new Error("a stored password is not an argon2id hash");
  const [memory, passes, parallelism] = parts.slice(1, 4).map(Number) as [number, number, number];
  const [nonce, expected] = parts.slice(4).map((text) => Buffer.from(text, "base64")) as [Buffer, Buffer];
  const actual = await queue(() =>
    derive("argon2id", { message: password, nonce, memory, passes, parallelism, tagLength: expected.length }),
  );
  return timingSafeEqual(actual, expected);
}

function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("=", "");
}
