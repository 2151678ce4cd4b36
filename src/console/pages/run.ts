import { capitalized } from "#plan/render/shared.ts";
import { verdictOnPlan } from "#sync/verdict.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord, Stage } from "#state/record.ts";
import { causeOf, decisionWords, stateOf } from "#state/run-text.ts";
import { pluralize } from "#text.ts";
import { lasting } from "#times.ts";
import {
  facts,
  id as idOf,
  list,
  moment,
  name,
  notice,
  prose,
  section,
  state,
  tabs,
  timeline as timelineOf,
  when,
  withDeeper,
} from "#console/components.ts";
import type { Step } from "#console/components.ts";
import { expectations } from "#console/expectations.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { icon } from "#console/icons.ts";

export interface RunPage {
  /** In epoch milliseconds; undefined in what is read later. */
  readonly now: number | undefined;
  readonly run: RunRecord;
  /** The runs that undo this one. */
  readonly undoneBy: readonly RunRecord[];
  /** Whether the visitor may decide about it. */
  readonly mayDecide: boolean;
  /** How many records or principals the stage under way has got to. */
  readonly progress?: number | undefined;
  /** What follows it, if it is the last run of its sync. */
  readonly following?: { readonly nextSlotAt?: string | undefined } | undefined;
}

export function run(page: RunPage): Html {
  const { run: record, now } = page;
  const { id } = record;
  return html`${heading(record, now)} ${runTabs(record, "run")} ${decision(page)}
    ${(!isOpen(record) || record.heldBy !== "limits") && problem(record, planAgain(page) ?? whatNext(page))}
    <div class="columns">
      <div>${section("stages", "Stages", timeline(page))} ${expectations(record)} ${notes(record)}</div>
      <div>
        ${section("about", "About this run", about(page, link))}
        ${mayUndo(page) && html`<p class="buttons"><a class="button secondary" href="${at("/runs", id, "undo")}">${icon("undo")}Undo…</a></p>`}
      </div>
    </div>`;
}

/** The way from a run whose plan waits to the decision about it. */
function decision({ run: record, now, mayDecide }: RunPage): Html | false {
  const { id, expiresAt } = record;
  if (!isOpen(record)) return false;
  const until = expiresAt === undefined ? "" : html` It expires ${when(expiresAt, now)}.`;
  return notice(
    record.state === "held" ? "bad" : "waiting",
    html`<b>${capitalized(verdictOnPlan(record))}.</b> The plan waits for a decision.${until}`,
    false,
    html`<a class="button" href="${at("/runs", id, "plan")}"
      >${mayDecide ? "Look at the plan and decide" : "Look at the plan"}</a
    >`,
  );
}

/** What comes after a run that ended with an error; undefined where its error says it. */
function whatNext({ run: record, now, following, mayDecide }: RunPage): Html | undefined {
  const { error, cancelled, sync, state: of } = record;
  if (following === undefined || error === undefined || of !== "failed") return undefined;
  const again = mayDecide ? html` <a href="${at("/syncs", sync, "run")}">Run ${name(sync)} now…</a>` : "";
  const next =
    following.nextSlotAt === undefined
      ? "No further run is scheduled."
      : html`The next run begins ${when(following.nextSlotAt, now)}.`;
  if (cancelled === true) return html`<p>Nothing was applied. ${next}${again}</p>`;
  const first = error.advice === "fix" ? "Fix the problem first." : error.advice === "stop" ? advice["stop"] : "";
  return html`<p>${first} ${next}${again}</p>`;
}

function link(other: string): Html {
  return html`<a href="${at("/runs", other)}">${idOf(other)}</a>`;
}

/** What a run or its plan begins with: which one it is, and how it stands, in a sentence. */
export function heading(record: RunRecord, now: number | undefined): Html {
  const { sync, target, startedAt, undoes, id, digest } = record;
  return html`<hgroup>
    <h1>${name(sync)} <small>→ ${name(target)}</small></h1>
    <p>
      ${state(record)}
      <span class="quiet"
        >began ${when(startedAt, now)},
        ${causeOf(record)}${undoes !== undefined && html`, undoes ${link(undoes)}`}</span
      >
    </p>
    <p class="quiet ids">run <code>${id}</code>${digest !== undefined && html`, plan <code>${digest}</code>`}</p>
  </hgroup>`;
}

/** The run and its plan are two pages. */
export function runTabs({ id, digest, counts }: RunRecord, current: "run" | "plan"): Html {
  const hasPlan = digest !== undefined && counts !== undefined;
  return tabs("Run", [
    ...(hasPlan ? [{ href: at("/runs", id, "plan"), label: "Plan", isCurrent: current === "plan" }] : []),
    { href: at("/runs", id), label: "Run", isCurrent: current === "run" },
  ]);
}

/** What to do about an error, by its advice. */
export const advice: Readonly<Record<string, string>> = {
  retry: "It may work the next time.",
  fix: "Fix the problem first, then run it again.",
  stop: "A person has to look at this before it goes on.",
};

/** How many details or problems are shown at once; more are folded. */
const fewDetails = 5;

/** A plan that still waits, but that the target has outrun: how somebody who may decide gets a new one. */
export function planAgain({ run, mayDecide }: Pick<RunPage, "run" | "mayDecide">): Html | undefined {
  if (run.state !== "pending" || !mayDecide || run.for !== undefined || run.undoes !== undefined) return undefined;
  return html`<p><a href="${at("/syncs", run.sync, "run")}">Run ${name(run.sync)} now…</a> to plan again.</p>`;
}

/** Why it failed, is held or was not applied, and what to do. @param next what comes after it, where that is known */
export function problem(run: RunRecord, next?: Html): Html | false {
  const { error, cancelled } = run;
  if (error === undefined) return false;
  const [first, more] = [error.problems.slice(0, fewDetails), error.problems.slice(fewDetails)];
  return notice(
    cancelled === true ? "waiting" : "bad",
    html`<p><b>${run.state === "pending" ? "Not applied" : capitalized(stateOf(run))}</b>: ${prose(error.message)}</p>
      ${list(first.map(prose))}
      ${
        more.length > 0 &&
        html`<details class="more">
          <summary>More</summary>
          ${list(more.map(prose))}
        </details>`
      }
      ${next ?? (cancelled !== true && advice[error.advice] !== undefined && html`<p>${advice[error.advice]}</p>`)}`,
  );
}

const stageWords: Readonly<Record<Stage, string>> = {
  read: "Read the sources",
  list: "List the target",
  plan: "Plan",
  preview: "Preview by the target",
  apply: "Apply",
  verify: "Verify",
};

export function timeline({ run: record, now, progress }: Pick<RunPage, "run" | "now" | "progress">): Html {
  const { stages, state: of, expiresAt } = record;
  if (stages.length === 0)
    return html`<p class="quiet">
      ${of === "running" ? "It waits for another run to the same target." : "It never began to read."}
    </p>`;
  const longest = Math.max(1, ...stages.map(({ milliseconds = 0 }) => milliseconds));
  const steps = stages.flatMap((stage, index): Step[] => {
    const before = stages[index - 1];
    const gap =
      before?.milliseconds === undefined
        ? 0
        : Date.parse(stage.startedAt) - Date.parse(before.startedAt) - before.milliseconds;
    const isLast = index === stages.length - 1;
    const isUnderWay = of === "running" && stage.milliseconds === undefined && isLast;
    const underWay = isUnderWay && now !== undefined ? { now, progress } : undefined;
    // Between the plan and its apply a person decides.
    const waited: Step[] = gap < 1000 ? [] : [{ tone: "waited", label: "Waited", end: lasting(gap) }];
    return waited.concat(stepOf(stage, longest, of === "failed" && isLast, underWay));
  });
  const waits: Step[] = isOpen(record)
    ? [
        {
          tone: "waited",
          label: "Waits for a decision",
          end: expiresAt !== undefined && html`expires ${when(expiresAt, now)}`,
        },
      ]
    : [];
  return timelineOf([...steps, ...waits]);
}

function stepOf(
  { stage, startedAt, milliseconds, records }: RunRecord["stages"][number],
  longest: number,
  hasFailed: boolean,
  underWay: { readonly now: number; readonly progress: number | undefined } | undefined,
): Step {
  const count = underWay?.progress ?? records;
  const label = html`${stageWords[stage]}${count !== undefined && html` <small>${pluralize(count, stage === "apply" ? "change" : "record")}</small>`}`;
  if (underWay !== undefined)
    return { tone: "running", label, end: html`${lasting(Math.max(0, underWay.now - Date.parse(startedAt)))} so far` };
  if (milliseconds === undefined) return { tone: "failed", label, end: html`<span class="bad">not finished</span>` };
  return { tone: hasFailed ? "failed" : "done", label, share: milliseconds / longest, end: lasting(milliseconds) };
}

/** @param other what names another run, by its id */
export function about(
  { run: record, now, undoneBy }: Pick<RunPage, "run" | "now" | "undoneBy">,
  other: (id: string) => Html,
): Html {
  const { startedAt, endedAt, counts, decisions, expiresAt, foundAgain, recovery, undoes, sameAs, caution } = record;
  return facts([
    ["Began", moment(startedAt)],
    ["Ended", endedAt !== undefined && moment(endedAt)],
    ["Result", counts !== undefined && verdictOnPlan(record)],
    ["Only", record.for !== undefined && record.for.map((each) => html`${name(each)} `)],
    ["Decisions", list(decisions.map((each) => html`${decisionWords(each)} (${when(each.at, now)})`))],
    ["Needs approval", caution !== undefined && prose(caution)],
    ["Expires", expiresAt !== undefined && isOpen(record) && when(expiresAt, now)],
    [
      "Found again",
      foundAgain !== undefined && html`${pluralize(foundAgain.count, "time")}, last ${when(foundAgain.lastAt, now)}`,
    ],
    ["Found before", sameAs !== undefined && html`by run ${other(sameAs)}, which counts for both`],
    ["Undoes", undoes !== undefined && other(undoes)],
    ["Undone by", undoneBy.length > 0 && undoneBy.map((each) => html`${other(each.id)} ${state(each)} `)],
    ["Recovery", recovery !== undefined && prose(recovery)],
    ["Quarantined", (record.quarantined ?? 0) > 0 && pluralize(record.quarantined ?? 0, "record")],
    ["Export", record.export !== undefined && exported(record.export)],
  ]);
}

/** What was exported after it, as far as it is known here: the tables are shown by `rollcall show`. */
function exported(document: NonNullable<RunRecord["export"]>): Html {
  const { to, error } = document as { readonly to?: string; readonly error?: { readonly message: string } };
  return error === undefined ? html`to ${to ?? "its tables"}` : html`<span class="bad">failed: ${error.message}</span>`;
}

/** What the run noted. @param isWhole nothing is folded, for what is read elsewhere */
export function notes({ notes: all }: RunRecord, isWhole = false): Html | false {
  return (
    all.length > 0 &&
    section(
      "notes",
      "Notes",
      html`<ul class="notes">
        ${all.map((note) => {
          const { text, details = [] } = note;
          const [first = "", ...rest] = [text, ...details.map((detail) => detail.text)].flatMap((each) =>
            each.split("\n"),
          );
          const below = rest.map((line) => line.trimStart());
          if (isWhole || below.length <= fewDetails) return withDeeper(first, below);
          return html`<li>
            <details>
              <summary>${prose(first.replace(/:$/, ""))}</summary>
              <ul class="notes">
                ${below.map((line) => html`<li class="deep">${prose(line)}</li>`)}
              </ul>
            </details>
          </li>`;
        })}
      </ul>`,
    )
  );
}

function mayUndo({ run: { state: of, kept }, mayDecide }: RunPage): boolean {
  return mayDecide && of === "applied" && kept;
}
