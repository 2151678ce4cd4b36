import { userInfo } from "node:os";
import type { Actor } from "#sync/record.ts";

/** The account of this machine that runs this process. */
export function localActor(): Actor {
  const from = "command line";
  try {
    return { name: userInfo().username, from };
  } catch {
    // A container's account need not have a name.
    return { name: `account ${process.getuid?.() ?? "unknown"}`, from };
  }
}
