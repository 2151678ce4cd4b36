/** The umask that the process was started with. */
let given: number | undefined;

/**
 * From now on, what this process creates is for its owner alone, whatever its umask was: DuckDB gives its databases, logs,
 * spilled rows and Parquet files the mode that the umask leaves.
 */
export function keepFilesPrivate(): void {
  if (given !== undefined) return;
  const before = process.umask(0o077);
  given = before;
  // What Node writes at the end, compiled code, is for every account.
  process.once("exit", () => process.umask(before));
}

/** The mode of a file that a person asked for: what their umask leaves. */
export function modeForOthers(): number {
  return 0o666 & ~(given ?? process.umask());
}
