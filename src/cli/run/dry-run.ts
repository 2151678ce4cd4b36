import type { Overridable } from "#plan/limits.ts";
import { number } from "#text.ts";
import { run } from "#sync/run.ts";
import type { Report, RunResult } from "#sync/run.ts";
import type { Stage } from "#sync/sync.ts";
import { daemonFolder } from "#cli/context.ts";
import type { Context } from "#cli/context.ts";
import { openSync } from "#cli/open/sync.ts";

const doing: Record<Stage, string> = {
  read: "reading the sources",
  list: "listing the target",
  plan: "planning",
  preview: "asking the service for its preview",
  apply: "applying",
  verify: "verifying",
};

export interface DryRunOptions {
  readonly digest?: string;
  readonly overrides?: readonly Overridable[];
  readonly report?: (report: Report) => Promise<void>;
  readonly warn: (message: string) => void;
}

/** Runs one sync of the configuration without changing anything, with progress on the terminal. */
export async function dryRun(context: Context, name: string, options: DryRunOptions): Promise<RunResult> {
  const { configuration, output, interruption } = context;
  const sync = await openSync(configuration, name, context.embedded, context.observe);
  const folder = daemonFolder(configuration);
  const { memory } = configuration;
  try {
    return await run(sync, {
      ...options,
      apply: false,
      folder,
      memory,
      interruption,
      progress: progressOf(context, name),
    });
  } finally {
    output.progress();
    await sync.target.close();
  }
}

/** Shows on the terminal what is being done. */
export function progressOf(
  { log, output }: Pick<Context, "log" | "output">,
  name: string,
): (stage: Stage, records?: number) => void {
  return (stage, records) => {
    if (records === undefined) log.debug({ sync: name, stage }, `sync ${name}: ${doing[stage]}`);
    output.progress(`${name}: ${doing[stage]}${records === undefined ? "" : ` (${number(records)} records)`} …`);
  };
}
