// Former names, for callers that have not moved to client.ts and errors.ts yet.
import { connectionProblem, requestProblem } from "./errors.ts";
import type { Advice, Peer, Phase } from "./errors.ts";

export type { Peer } from "./errors.ts";
export { codeOf } from "#files/disk.ts";

export function troubleOf(
  error: unknown,
  peer: Peer,
): { reason: string; with: "certificate" | "encryption" | "network" } | undefined {
  const problem = connectionProblem(error, peer);
  return problem && { reason: problem.reason, with: problem.kind };
}

export function breakageOf(
  error: unknown,
  phase: Phase,
  where: {
    url: URL;
    timeouts: { connect: number; headers: number; body: number };
    owner?: string | undefined;
    scheme?: string | undefined;
  },
): { reason: string; advice: Advice } {
  return requestProblem(error, phase, { owner: "target", ...where, host: where.url.host });
}
