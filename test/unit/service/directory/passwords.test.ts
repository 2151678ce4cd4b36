import { expect, test } from "vitest";
import { hashOfNobody, hashPassword, verifyPassword } from "#passwords.ts";
import { Hashing } from "#service/directory/passwords.ts";

test("B.7 passwords are argon2id hashes in PHC form, each with its own salt", async () => {
  const [first, second] = await Promise.all([hashPassword("secret"), hashPassword("secret")]);
  expect(first).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  expect(second).not.toBe(first);
  await expect(verifyPassword(first, "secret")).resolves.toBe(true);
  await expect(verifyPassword(first, "Secret")).resolves.toBe(false);
  await expect(verifyPassword(first, "")).resolves.toBe(false);
});

test("B.7 a hash that another implementation made is understood", async () => {
  // From the tests of the reference implementation.
  const hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
  await expect(verifyPassword(hash, "password")).resolves.toBe(true);
  await expect(verifyPassword(hash, "not it")).resolves.toBe(false);
});

test("what is no hash is an error, not a wrong password", async () => {
  await expect(verifyPassword("plain", "plain")).rejects.toThrow("not an argon2id hash");
});

test("the hash of nobody is one, and matches nothing", async () => {
  await expect(verifyPassword(hashOfNobody(), "")).resolves.toBe(false);
});

test("who gives up waits no longer", async () => {
  const controller = new AbortController();
  const hashes = Array.from({ length: 4 }, () => hashPassword("x", controller.signal));
  controller.abort(new Error("gone"));
  const ends = await Promise.allSettled(hashes);
  expect(ends.filter(({ status }) => status === "rejected")).toHaveLength(2);
});

test("many passwords keep their order, and nobody who logs in meanwhile waits for all of them", async () => {
  const passwords = Array.from({ length: 150 }, (_, index) => `secret-${index}`);
  const mine = await hashPassword("mine");
  const ended: string[] = [];
  await using hashing = new Hashing(passwords.length);
  const all = hashing.hash(passwords).finally(() => ended.push("all of them"));
  const one = verifyPassword(mine, "mine").finally(() => ended.push("the login"));
  await Promise.all([all, one]);
  expect(ended).toEqual(["the login", "all of them"]);
  const hashes = await all;
  expect(new Set(hashes).size).toBe(150);
  await expect(verifyPassword(hashes[117] ?? "", "secret-117")).resolves.toBe(true);
  await expect(verifyPassword(hashes[149] ?? "", "secret-149")).resolves.toBe(true);
});

test.each([3, 1_000])("%i passwords are given up between two of them", async (count) => {
  const controller = new AbortController();
  await using hashing = new Hashing(count);
  const all = hashing.hash(
    Array.from({ length: count }, (_, index) => `secret-${index}`),
    controller.signal,
  );
  controller.abort(new Error("gone"));
  await expect(all).rejects.toThrow("gone");
});
