import type { Context } from "#cli/context.ts";
import { loadFormatOf } from "./options.ts";
import type { LoadOptions } from "./options.ts";
import { findInputs } from "./inputs.ts";
import { inBytes } from "#cli/format.ts";
import { exitCodes } from "#cli/output.ts";
import type { ExitCode, Output } from "#cli/output.ts";
import { openConfiguredLoads } from "#cli/wiring.ts";
import type { Loaded, Progress } from "#client/loads.ts";
import { pluralize } from "#text.ts";

/** How many rejected rows are shown; `--json` has them all. */
const shownErrors = 10;

/** How often the progress line is updated, in milliseconds. */
const renewal = 200;

/** `rollcall load FILE…`: loads files into a table, all or nothing. Exit code 1 when the load failed. */
export async function loadCommand(context: Context, files: readonly string[], flags: LoadOptions): Promise<ExitCode> {
  const { configuration, embedded, interruption, output } = context;
  const inputs = await findInputs(files, process.stdin);
  const loads = await openConfiguredLoads(configuration, flags.target, embedded, {
    log: (message) => {
      output.say(message);
    },
    nodes: flags.node,
    fileChunk: flags.chunkSize === undefined ? undefined : flags.chunkSize * 2 ** 20,
  });
  const table = Object.values(flags.table).join(".");
  const meter = showProgress(output, inputs.total);
  try {
    const loaded = await loads.load(
      {
        into: flags.table,
        ...loadFormatOf(flags),
        sources: inputs.sources,
        badRecords: flags.badRecords ?? inputs.badRecords,
        onProgress: meter.onProgress,
      },
      { signal: interruption.stop, abandon: interruption.abandon },
    );
    const seconds = meter.end();
    if (output.json) {
      const document = { target: loads.target, table, ...loaded, seconds };
      await output.write(`${JSON.stringify(document, undefined, 2)}\n`);
    } else if (loaded.code === "OK") {
      await output.write(`${summaryOf(table, loaded, seconds)}\n${notesOf(loaded)}`);
    } else {
      output.say(`rollcall: the load into ${table} failed: ${loaded.message ?? loaded.code}`);
      output.say(`${notesOf(loaded)}Nothing was loaded; the table is unchanged.`);
    }
    return loaded.code === "OK" ? exitCodes.done : exitCodes.failed;
  } finally {
    meter.end();
    await loads.close();
  }
}

function summaryOf(table: string, { written, ignored, bytes }: Loaded, seconds: number): string {
  const rows = `${pluralize(written, "row")} loaded${ignored === 0 ? "" : `, ${pluralize(ignored, "row")} ignored`}`;
  return `${table}: ${rows}; ${inBytes(bytes)} in ${seconds.toFixed(1)} s (${rateOf(bytes, seconds)})`;
}

function notesOf({ errors, badRecords, badRecordsProblem }: Loaded): string {
  const shown = errors.slice(0, shownErrors).map((error) => `  ${error}\n`);
  const rest = errors.length - shown.length;
  if (rest > 0) shown.push(`  … and ${rest} more; --json shows all\n`);
  if (badRecords !== undefined) shown.push(`The rejected rows are in ${badRecords}\n`);
  if (badRecordsProblem !== undefined) shown.push(`The rejected rows could not be saved: ${badRecordsProblem}\n`);
  return shown.join("");
}

function rateOf(bytes: number, seconds: number): string {
  return `${(bytes / 1e6 / Math.max(seconds, 0.001)).toFixed(1)} MB/s`;
}

/** Shows the progress of a load at a terminal. `end` returns how long it took, in seconds. */
function showProgress(
  output: Output,
  total: number | undefined,
): { onProgress: (progress: Progress) => void; end: () => number } {
  const began = performance.now();
  let latest: Progress | undefined;
  let committed = 0;
  const show = (): void => {
    if (latest === undefined) return;
    const { phase, bytes } = latest;
    const seconds = ((phase === "upload" ? performance.now() : committed) - began) / 1000;
    const part =
      total === undefined || total === 0 ? "" : ` of ${inBytes(total)} (${Math.floor((bytes / total) * 100)} %)`;
    const waited = phase === "upload" ? "" : `; loading for ${((performance.now() - committed) / 1000).toFixed(0)} s`;
    output.progress(`sent ${inBytes(bytes)}${part}, ${rateOf(bytes, seconds)}${waited} …`);
  };
  const timer = setInterval(show, renewal);
  let seconds: number | undefined;
  return {
    onProgress: (progress) => {
      if (progress.phase === "commit" && latest?.phase !== "commit") committed = performance.now();
      latest = progress;
    },
    end: () => {
      clearInterval(timer);
      output.progress();
      seconds ??= (performance.now() - began) / 1000;
      return seconds;
    },
  };
}
