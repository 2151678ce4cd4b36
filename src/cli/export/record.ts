import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Configuration, ExportConfiguration } from "#config/configuration.ts";
import { daemonFolder } from "#cli/context.ts";

/**
 * Which tables hold what a target has now: a small file for each target. It is taken away before a run changes the
 * target, so that an export that failed, or that nobody lived to make, is made after the next run.
 */
export interface ExportRecord {
  /** Are the tables there what the last applied run made of the target? */
  has(into: ExportConfiguration): boolean;
  /** They are now. */
  settle(into: ExportConfiguration): void;
  /** No tables are any more: the target is about to change. */
  invalidate(): void;
}

function key({ database, schema }: ExportConfiguration): string {
  return JSON.stringify([database, schema ?? null]);
}

/** @param place what tells the target from every other */
export function exportRecord(configuration: Configuration, place: string): ExportRecord {
  const file = join(daemonFolder(configuration), "exports", `${encodeURIComponent(place)}.json`);
  const read = (): string[] => {
    try {
      return JSON.parse(readFileSync(file, "utf8")) as string[];
    } catch {
      return [];
    }
  };
  return {
    has: (into) => read().includes(key(into)),
    settle: (into) => {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      const temporary = `${file}.${process.pid}`;
      writeFileSync(temporary, JSON.stringify([...new Set([...read(), key(into)])]));
      renameSync(temporary, file);
    },
    invalidate: () => {
      if (!existsSync(file)) return;
      rmSync(file);
      // Also after a power failure the tables must not be taken for what the target is then.
      const folder = openSync(dirname(file), "r");
      fsyncSync(folder);
      closeSync(folder);
    },
  };
}
