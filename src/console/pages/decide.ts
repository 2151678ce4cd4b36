import { actionsOf, changes, countOf, shortDigest, usualWords } from "#plan/change.ts";
import { amountOf, describeCause } from "#plan/causes.ts";
import type { Action, Counts } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { capitalized, isEmpty, leavingWords, nameLimits, totalsOf } from "#plan/render/shared.ts";
import { isPart } from "#plan/selection.ts";
import type { Selection } from "#plan/selection.ts";
import type { PlanDifferences } from "#plan/stored.ts";
import { limitsToOverride, overriddenBy, trippedLimits } from "#sync/coordinator/refusals.ts";
import { approvalsFor } from "#sync/coordinator/approvals.ts";
import { verdictOnPlan } from "#sync/verdict.ts";
import type { RunRecord } from "#state/record.ts";
import { decisionWords, selectionWords, stateOf } from "#state/run-text.ts";
import { formatNumber, formatPrincipals, pluralize } from "#text.ts";
import { amount, empty, gauge, id as idOf, list, name, notice, section, state, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { confirmation, field, hidden, tick } from "#console/forms.ts";
import type { Confirmation, Protected } from "#console/forms.ts";
import { at, exactValue, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { causes, totals } from "#console/pages/plan.ts";
import { heading } from "#console/pages/run.ts";

/** What every page that decides has. */
interface DecisionPage extends Timed, Protected {
  readonly run: RunRecord;
}

export interface ApprovePage extends DecisionPage {
  readonly selection: Selection;
  /** What of the plan is selected. */
  readonly counts: Counts;
  /** Why they may not override limits; absent: they may. */
  readonly noOverrides?: string | undefined;
}

/** Asks once, and says what will happen. */
export function approve({ now, run, token, selection, counts, noOverrides }: ApprovePage): Html {
  const { id, digest = "", target, leaving } = run;
  const part = isPart(selection);
  const names = part ? trippedLimits(run).filter((limit) => concerns(limit, counts)) : limitsToOverride(run);
  // Nothing changes yet: what is decided about is that they are really gone.
  const isAccepted =
    !part && leaving !== undefined && isEmpty(counts) && names.some((limit) => /^(?:shrink|min)/.test(limit));
  const beyond = run.limits.filter(({ limit, tripped }) => tripped && names.includes(limit));
  const count = changes(counts);
  const overridden = overriddenBy(run, part ? [] : names);
  const mustOverride = overridden.length > 0 && noOverrides !== undefined;
  const needed = run.approvers?.people ?? 1;
  const nth = approvalsFor(run, part ? selection : undefined).length + 1;
  const isBeyond = beyond.length > 0;
  const isDanger = (isBeyond && !part) || isAccepted || countOf(counts, "delete") + countOf(counts, "suspend") > 0;
  return html`${heading(run, now)}
    <div class="columns plan">
      ${confirmation({
        title: part
          ? "Approve a part of this plan?"
          : isBeyond
            ? "Override and approve this plan?"
            : "Approve this plan?",
        isDanger,
        content: html`<p>
            ${
              isAccepted
                ? html`${name(target)} stays as it is for now, and <b>${leavingWords(leaving)}</b>, unless the sources
                    have them again by then.`
                : html`${name(target)} will have <b>${totalsOf(counts)}</b>${part && html` (${partWords(selection)})`}.`
            }
            The target is listed again first: if these are no longer the changes, nothing is applied.
          </p>
          ${needed > 1 && nthOf(nth, needed, part)} ${part && manyNames(selection)}
          ${part && html`<p>A group is not deleted while a member of it is left out. The next run plans the rest again.</p>`}
          ${part && count === 0 && notice("waiting", "Nothing of the plan is selected.")}
          ${mustOverride && notice("bad", `This plan is beyond ${nameLimits(overridden)}: ${noOverrides}.`)}`,
        action: at("/runs", id, "approve"),
        fields: html`${token} ${hidden("digest", digest)} ${selectionFields(selection)}
        ${noOverrides === undefined && overrides(part, beyond, names)}
        ${!mustOverride && reason(isBeyond && !part ? "Reason" : "Reason (optional)", isBeyond && !part)}`,
        button:
          !mustOverride &&
          (nth < needed
            ? html`<button type="submit">Approve, as ${nth} of ${needed}</button>`
            : (isAccepted || count > 0 || !part) &&
              html`<button type="submit" ${isDanger && html`class="danger"`}>
                ${isAccepted ? `Accept that ${formatPrincipals(leaving.users, leaving.groups)} leave` : verbOf(counts)}
              </button>`),
        back: toPlan(id),
        note: html`Plan ${idOf(shortDigest(digest))}`,
      })}
      <div class="beside">${!isEmpty(counts) && totals(counts)} ${!part && causes(run)}</div>
    </div>`;
}

/** How many names of a selection stand in a sentence; more of them are counted there, and listed below it. */
const namesInSentence = 8;

function partWords(selection: Selection): string {
  const { these = [], except = [] } = selection;
  if (these.length + except.length <= namesInSentence) return selectionWords(selection).join("; ");
  const { these: _, except: __, ...others } = selection;
  return [
    ...selectionWords(others),
    ...(these.length === 0 ? [] : [`only ${pluralize(these.length, "user or group", "users and groups")}`]),
    ...(except.length === 0 ? [] : [`all but ${pluralize(except.length, "user or group", "users and groups")}`]),
  ].join("; ");
}

function manyNames({ these = [], except = [] }: Selection): Html | false {
  const all = [...these, ...except];
  return (
    all.length > namesInSentence &&
    html`<details class="more">
      <summary>${formatNumber(all.length)} names</summary>
      ${list(all.map(({ kind, name: called }) => html`${kind} ${name(called)}`))}
    </details>`
  );
}

const actionsOfLimits: Readonly<Record<string, Action>> = {
  deletes: "delete",
  suspends: "suspend",
  updates: "update",
  creates: "create",
};

/** Whether a part of a plan can be beyond a limit of the whole: not where it has nothing of what the limit counts. */
function concerns(limit: string, counts: Counts): boolean {
  const action = actionsOfLimits[limit];
  return action === undefined || countOf(counts, action) > 0;
}

function nthOf(nth: number, needed: number, part: boolean): Html {
  return html`<p>
    <b>Approval ${nth} of ${needed}.</b>
    ${
      nth < needed
        ? `Nothing is applied before ${pluralize(needed - nth, "more person approves", "more people approve")} ${part ? "the same part of it" : "it"}.`
        : "With it, the plan is applied."
    }
  </p>`;
}

function reason(label: string, isRequired: boolean): Html {
  return field(
    label,
    html`<input name="reason" maxlength="2000" autocomplete="off" ${isRequired && html`required`} />`,
  );
}

/** The limits to override, a box each. */
function overrides(
  part: boolean,
  beyond: readonly LimitCheck[],
  names: ReturnType<typeof trippedLimits>,
): Html | false {
  return (
    beyond.length > 0 &&
    html`<fieldset>
      <legend>${part ? "Limits that the whole plan is beyond" : "Limits to override for this plan"}</legend>
      ${beyond.map(gauge)}
      ${names.map((limit) => tick("override", `Override ${nameLimits([limit])}`, false, limit, !part && html`required`))}
    </fieldset>`
  );
}

/** What the button does: a deletion says so. */
function verbOf(counts: Counts): string {
  const { users, groups } = counts;
  const [count, deleted, suspended] = [changes(counts), countOf(counts, "delete"), countOf(counts, "suspend")];
  if (count === 0) return "Override and apply";
  if (deleted + suspended === 0) return `Apply ${pluralize(count, "change")}`;
  const others = count - deleted - suspended;
  const parts = [
    ...(deleted === 0 ? [] : [`delete ${formatPrincipals(users.delete, groups.delete)}`]),
    ...(suspended === 0 ? [] : [`suspend ${pluralize(suspended, "user")}`]),
    ...(others === 0 ? [] : [`apply ${pluralize(others, "other change")}`]),
  ];
  return capitalized(parts.join(", "));
}

function toPlan(id: string): Confirmation["back"] {
  return { href: at("/runs", id, "plan"), label: "Back to the plan" };
}

/** The selection as hidden fields, exactly. */
function selectionFields({ only, except = [], these, onlyCauses = [], exceptCauses = [] }: Selection): Html {
  return html`${only !== undefined && hidden("part", "1")}${(these ?? []).map(({ kind, name: called }) => hidden("these", `${kind}:${called}`))}${(only ?? []).map((each) => hidden("only", each))}${except.map(({ kind, name: called }) => hidden("except", `${kind}:${called}`))}
  ${onlyCauses.map((each) => hidden("onlyCause", each))}${exceptCauses.map((each) => hidden("exceptCause", each))}`;
}

export interface PartPage extends Omit<DecisionPage, "token"> {
  /** What the form said, where it is shown again. */
  readonly given?: URLSearchParams | undefined;
  /** What is wrong with the names. */
  readonly problem?: string | undefined;
}

/** Chooses a part of a plan: by action, by cause, by name. */
export function part({ now, run, given, problem }: PartPage): Html {
  const { id, counts, causes = [] } = run;
  if (counts === undefined) return empty("This run has no plan.");
  const actions = actionsOf(counts).filter((action) => countOf(counts, action) > 0);
  const known = causes.filter(({ kind }) => kind !== "first");
  const isGiven = (action: string): boolean => given === undefined || given.getAll("only").includes(action);
  return html`${heading(run, now)}
  ${confirmation({
    title: "Which part?",
    content: false,
    action: at("/runs", id, "approve"),
    method: "get",
    fields: html`${hidden("part", "1")}
      <fieldset>
        <legend>Actions</legend>
        ${actions.map((action) =>
          tick(
            "only",
            html`<span class="${action}">${amount(action, countOf(counts, action))}</span>
              <span aria-hidden="true">${usualWords[action]}</span>`,
            isGiven(action),
            action,
          ),
        )}
      </fieldset>
      ${
        known.length > 0 &&
        html`<fieldset>
          <legend>Leave out what these causes change</legend>
          ${known.map((cause) => tick("exceptCause", `${amountOf(cause)}: ${describeCause(cause)}`, given?.getAll("exceptCause").includes(cause.id) === true, cause.id))}
        </fieldset>`
      }
      ${field(
        "Leave out these users and groups",
        html`<textarea
          name="exceptNames"
          rows="4"
          spellcheck="false"
          ${problem !== undefined && html`aria-invalid="true" autofocus`}
        >
${exactValue((given?.get("exceptNames") ?? "").replaceAll("\r\n", "\n"))}</textarea>`,
        {
          hint: html`A name on each line; <code>group:Sales</code> for a group.`,
          error: problem && capitalized(problem),
        },
      )}`,
    button: html`<button type="submit">See what that applies</button>`,
    back: toPlan(id),
  })}`;
}

export function reject({ now, run, token }: DecisionPage): Html {
  const { id, sync, counts } = run;
  return html`${heading(run, now)}
  ${confirmation({
    title: "Reject this plan?",
    content: html`<p>
      ${counts !== undefined && html`<b>${capitalized(verdictOnPlan(run))}</b>: none of that happens.`} The next run of
      ${name(sync)} plans again.
    </p>`,
    action: at("/runs", id, "reject"),
    fields: html`${token} ${reason("Reason", true)}`,
    button: html`<button type="submit" class="danger">Reject</button>`,
    back: toPlan(id),
  })}`;
}

export function undo({ now, run, token }: DecisionPage): Html {
  const { id, counts } = run;
  return html`${heading(run, now)}
  ${confirmation({
    title: "Undo this run?",
    content: html`<p>
      ${counts !== undefined && html`It applied <b>${totalsOf(counts)}</b>.`} A new run plans how to reverse that, and
      what later runs did to the same users and groups. Its plan waits for approval: nothing is changed yet.
    </p>`,
    action: at("/runs", id, "undo"),
    fields: token,
    button: html`<button type="submit">Plan the undo</button>`,
    back: { href: at("/runs", id), label: "Back to the run" },
  })}`;
}

export interface ConflictPage extends Timed {
  /** As it is now. */
  readonly run: RunRecord;
  /** Why the decision was not possible. */
  readonly message: string;
  /** The newer run that waits for a decision, and how its plan differs from the one that was shown. */
  readonly newer?: { readonly run: RunRecord; readonly differences?: PlanDifferences | undefined } | undefined;
}

/** The plan was decided about, or replaced, while somebody looked at it. */
export function conflict({ now, run, message, newer }: ConflictPage): Html {
  const last = run.decisions.at(-1);
  return html`${heading(run, now)}
  ${notice(
    "bad",
    html`<p>
        <b>Nothing was decided.</b>
        ${last === undefined ? html`It is ${stateOf(run)}.` : html`It was ${decisionWords(last)} (${when(last.at, now)}).`}
      </p>
      <p class="quiet">${message}</p>`,
    true,
  )}
  ${
    newer === undefined
      ? html`<p><a href="${at("/runs", run.id)}">Look at the run</a></p>`
      : section(
          "newer",
          "The plan that waits now",
          html`<p>
              ${state(newer.run)} ${verdictOnPlan(newer.run)}.
              <a href="${at("/runs", newer.run.id, "plan")}">Look at this plan</a>
            </p>
            ${newer.differences !== undefined && differences(newer.differences)}`,
        )
  }`;
}

function differing(title: string, { count, examples }: PlanDifferences["gone"]): Html | false {
  return (
    count > 0 &&
    html`<h3>${title} (${formatNumber(count)})</h3>
      ${list(examples.map(({ action, kind, name: called }) => html`<span class="${action}">${action}</span> ${kind} ${name(called)}`))}
      ${count > examples.length && html`<p class="quiet">… and ${formatNumber(count - examples.length)} more</p>`}`
  );
}

function differences({ gone, added, other, same }: PlanDifferences): Html {
  return html`<p>
      Compared with the plan that was shown, ${pluralize(same, "change is the same", "changes are the same")}.
    </p>
    ${differing("No longer planned", gone)} ${differing("Planned now, and not shown", added)}
    ${differing("Planned otherwise", other)}`;
}
