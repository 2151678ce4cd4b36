import { join } from "node:path";
import { daemonFolder } from "#daemon/data-folder.ts";
import { unpacked } from "#cli/load/inputs.ts";
import { loadFormatOf } from "#cli/load/options.ts";
import type { Configuration } from "#config/configuration.ts";
import type { Formats } from "#console/context.ts";

/** Guesses the format of files for the console as `rollcall load` does. */
export function createFormats(current: () => Configuration): Formats {
  return {
    unpacked,
    guess: async (sample, columns, called) => {
      const [{ guessFormat }, { openWorkbench }] = await Promise.all([
        import("#cli/load/guess.ts"),
        import("#duckdb/workbench.ts"),
      ]);
      const { memory } = current();
      const workbench = await openWorkbench({ folder: join(daemonFolder(current()), "work"), memory });
      try {
        const { options, header, notes, doubts } = await guessFormat(workbench, sample, columns, {}, called);
        const into = { database: "", table: "" };
        return { format: loadFormatOf({ table: into, ...options }).format, header, notes, doubts };
      } finally {
        await workbench.close();
      }
    },
  };
}
