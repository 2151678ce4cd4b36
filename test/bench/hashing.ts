import { availableParallelism } from "node:os";
import { hash } from "@node-rs/argon2";
import { cost } from "#passwords.ts";
import type { Timing } from "./client.ts";

/** A process of its own: hashes passwords as the service does, one on each processor, and does nothing else. */
export interface HashingRequest {
  readonly count: number;
}

export interface HashingTiming extends Timing {
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
}

const { count } = JSON.parse(process.argv[2] ?? "") as HashingRequest;
let left = count;
const work = async (): Promise<void> => {
  while (left-- > 0) await hash(`password ${left}`, cost);
};
const started = performance.now();
const before = process.cpuUsage();
await Promise.all(Array.from({ length: availableParallelism() }, work));
const { user, system } = process.cpuUsage(before);
console.log(
  JSON.stringify({
    milliseconds: performance.now() - started,
    cpu: (user + system) / 1000,
  } satisfies HashingTiming),
);
