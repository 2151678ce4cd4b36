import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Limits the files that a process may write to a size in bytes, as `ulimit -f` does; undefined: any. Those it starts inherit it. */
export async function limitFiles(pid: number, size: number | undefined): Promise<void> {
  // Only the soft limit, so that it can be lifted again.
  await run("prlimit", ["--pid", String(pid), `--fsize=${size ?? "unlimited"}:unlimited`]);
}

/** The processes that a process has started. */
export async function childrenOf(pid: number): Promise<readonly number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return children.trim().split(" ").filter(Boolean).map(Number);
}
