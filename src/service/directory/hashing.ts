import { parentPort } from "node:worker_threads";
import { hashSync } from "@node-rs/argon2";
import { cost } from "#passwords.ts";
import { yieldProcessors } from "#priority.ts";

/**
 * A thread that hashes many passwords. Each message has some; the answer is their hashes, in their order.
 */

// On Linux a priority is the thread's; elsewhere it would be that of the whole process.
if (process.platform === "linux") yieldProcessors(10);

parentPort?.on("message", (passwords: readonly string[]) => {
  parentPort?.postMessage(passwords.map((password) => hashSync(password, cost)));
});
