import type { Fact } from "#plan/render/sections.ts";
import { isOpen } from "#sync/coordinator/ending.ts";
import type { RunRecord } from "#sync/record.ts";
import { passedOver } from "#sync/coordinator/refusals.ts";
import { exactly, lasting, relatively } from "#cli/moments.ts";
import { counted } from "#text.ts";
import { causeOf, decisionWords, shortCounts, stateOf, tones } from "./words.ts";

/**
 * A run for a person, but for its changes, limits and notes.
 * @param runs all that are known: another one may have taken it back
 * @param now in epoch milliseconds, to say how far away moments are; absent: what is read later says when alone
 */
export function factsOf(run: RunRecord, runs: readonly RunRecord[], now?: number): Fact[] {
  const moment = (iso: string): string =>
    now === undefined ? exactly(iso) : `${exactly(iso)}, ${relatively(iso, now)}`;
  const tone = tones[run.state];
  const { error, expiresAt, foundAgain, recovery } = run;
  const end = run.endedAt === undefined ? [] : [`ended ${moment(run.endedAt)}`];
  const taking = runs.filter(({ undoes }) => undoes === run.id);
  return [
    {
      label: "state",
      lines: [run.state === "applied" ? "applied and verified" : stateOf(run)],
      ...(tone === undefined ? {} : { tone }),
    },
    ...(error === undefined
      ? []
      : [
          {
            label: "error",
            lines: [error.message, ...error.problems.map((each) => `  ${each}`)],
            tone: "bad" as const,
          },
        ]),
    ...fact("cause", causeOf(run)),
    ...(run.undoes === undefined ? [] : fact("takes back", `run ${run.undoes}`)),
    ...(run.sameAs === undefined ? [] : fact("found before", `by run ${run.sameAs}, which stands for both`)),
    ...fact("taken back by", ...taking.map((each) => `run ${each.id}, ${stateOf(each)}`)),
    ...fact("time", `began ${moment(run.startedAt)}`, ...end),
    ...fact("stages", ...run.stages.map(stageLine)),
    ...(run.counts === undefined ? [] : fact("changes", shortCounts(run.counts) || "none")),
    ...fact("decisions", ...run.decisions.map((each) => `${decisionWords(each)} (${moment(each.at)})`)),
    ...(foundAgain === undefined
      ? []
      : fact("found again", `${counted(foundAgain.count, "time")}, last ${moment(foundAgain.lastAt)}`)),
    ...(recovery === undefined ? [] : fact("recovery", recovery)),
    ...(expiresAt === undefined || !isOpen(run) ? [] : fact("expires", moment(expiresAt))),
    ...fact("you can", ...possibilities(run)),
  ];
}

/** Nothing, where there is nothing to say. */
function fact(label: string, ...lines: readonly string[]): Fact[] {
  return lines.length === 0 ? [] : [{ label, lines }];
}

function stageLine({ stage, milliseconds, records }: RunRecord["stages"][number]): string {
  const took = milliseconds === undefined ? "not finished" : lasting(milliseconds);
  return `${stage.padEnd(7)} ${took}${records === undefined ? "" : `, ${counted(records, "record")}`}`;
}

/** The commands that make sense now. */
function possibilities(run: RunRecord): string[] {
  const { id, sync, state, kept } = run;
  if (isOpen(run)) {
    const beyond = run.state === "held" ? passedOver(run) : [];
    const override = beyond.length === 0 ? "" : ` --override ${beyond.join(",")}`;
    return [`rollcall approve ${id}${override}`, `rollcall reject ${id} --reason "…"`];
  }
  if (state === "held" || state === "failed" || state === "expired") return [`rollcall plan ${sync}`];
  if (state === "applied" && kept) return [`rollcall undo ${id}`];
  return [];
}
