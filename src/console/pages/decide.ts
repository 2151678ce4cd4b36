import type { Cause } from "#plan/causes.ts";
import { amountOf, describeCause } from "#plan/causes.ts";
import { changes, shortDigest } from "#plan/change.ts";
import type { Counts } from "#plan/change.ts";
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
import { amount, empty, gauge, name, notice, state, when } from "#console/components.ts";
import { at, exactValue, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { heading } from "#console/pages/run.ts";

/** What every page that decides has. */
interface DecisionPage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly run: RunRecord;
  /** The hidden field that proves where the form comes from. */
  readonly token: Html;
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
  const names = part ? trippedLimits(run) : limitsToOverride(run);
  // Nothing changes yet: what is decided about is that they are really gone.
  const isAccepted =
    !part && leaving !== undefined && isEmpty(counts) && names.some((limit) => /^(?:shrink|min)/.test(limit));
  const beyond = run.limits.filter(({ limit, tripped }) => tripped && names.includes(limit));
  const count = changes(counts);
  const overridden = overriddenBy(run, part ? [] : names);
  const mustOverride = overridden.length > 0 && noOverrides !== undefined;
  const needed = run.approvers?.people ?? 1;
  const nth = approvalsFor(run, part ? selection : undefined).length + 1;
  return html`${heading(run, now)}
    <section class="decision">
      <h2>
        ${part ? "Approve a part of this plan?" : beyond.length > 0 ? "Override and approve this plan?" : "Approve this plan?"}
      </h2>
      <p>
        ${
          isAccepted
            ? html`${name(target)} stays as it is for now, and <b>${leavingWords(leaving)}</b>, unless the sources have
                them again by then.`
            : html`${name(target)} will have
                <b>${totalsOf(counts)}</b>${part && html` (${selectionWords(selection).join("; ")})`}.`
        }
        The target is listed again first: if these are no longer the changes, nothing is applied.
      </p>
      ${
        needed > 1 &&
        html`<p>
          <b>Approval ${nth} of ${needed}.</b>
          ${
            nth < needed
              ? `Nothing is applied before ${pluralize(needed - nth, "more person approves", "more people approve")} ${part ? "the same part of it" : "it"}.`
              : "With it, the plan is applied."
          }
        </p>`
      }
      ${part && html`<p>A group is not deleted while a member of it is left out. The next run plans the rest again.</p>`}
      ${part && count === 0 && notice("waiting", "Nothing of the plan is selected.")}
      ${mustOverride && notice("bad", `This plan is beyond ${nameLimits(overridden)}: ${noOverrides}.`)}
      <form method="post" action="${at("/runs", id, "approve")}">
        ${token}<input type="hidden" name="digest" value="${digest}" />${selectionFields(selection)}
        ${noOverrides === undefined && overrides(part, beyond, names)}
        <label
          >Reason${beyond.length > 0 && !part ? "" : " (optional)"}
          <input name="reason" maxlength="2000" autocomplete="off" ${beyond.length > 0 && !part && html`required`}
        /></label>
        <p class="buttons">
          ${
            nth < needed && !mustOverride
              ? html`<button type="submit">Approve, as ${nth} of ${needed}</button>`
              : isAccepted && !mustOverride
                ? html`<button type="submit" class="danger">
                    Accept that ${formatPrincipals(leaving.users, leaving.groups)} leave
                  </button>`
                : (count > 0 || !part) &&
                  !mustOverride &&
                  html`<button type="submit" ${counts.users.delete + counts.groups.delete > 0 && html`class="danger"`}>
                    ${verbOf(counts)}
                  </button>`
          }
          ${back(id)}
        </p>
      </form>
      <p class="quiet">
        <small>Plan <code>${shortDigest(digest)}</code></small>
      </p>
    </section>`;
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
      ${names.map(
        (limit) =>
          html`<label
            ><input type="checkbox" name="override" value="${exactValue(limit)}" ${!part && html`required`} /> Override
            ${nameLimits([limit])}</label
          >`,
      )}
    </fieldset>`
  );
}

/** What the button does: a deletion says so. */
function verbOf(counts: Counts): string {
  const { users, groups } = counts;
  const [count, deleted] = [changes(counts), users.delete + groups.delete];
  if (count === 0) return "Override and apply";
  if (deleted === 0) return `Apply ${pluralize(count, "change")}`;
  const others = count - deleted;
  const rest = others === 0 ? "" : `, apply ${pluralize(others, "other change")}`;
  return `Delete ${formatPrincipals(users.delete, groups.delete)}${rest}`;
}

function back(id: string): Html {
  return html`<a class="button secondary" href="${at("/runs", id, "plan")}">Back to the plan</a>`;
}

function field(key: string, value: string): Html {
  return html`<input type="hidden" name="${key}" value="${exactValue(value)}" />`;
}

/** The selection as hidden fields, exactly. */
function selectionFields({ only, except = [], these, onlyCauses = [], exceptCauses = [] }: Selection): Html {
  return html`${only !== undefined && field("part", "1")}${(these ?? []).map(({ kind, name: called }) => field("these", `${kind}:${called}`))}${(only ?? []).map((each) => field("only", each))}${except.map(({ kind, name: called }) => field("except", `${kind}:${called}`))}
  ${onlyCauses.map((each) => field("onlyCause", each))}${exceptCauses.map((each) => field("exceptCause", each))}`;
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
  const actions = (["create", "update", "delete"] as const).filter(
    (action) => counts.users[action] + counts.groups[action] > 0,
  );
  const known = causes.filter(({ kind }) => kind !== "first");
  return html`${heading(run, now)}
    <section class="decision">
      <h2>Which part?</h2>
      <form method="get" action="${at("/runs", id, "approve")}">
        <input type="hidden" name="part" value="1" />
        <fieldset>
          <legend>Actions</legend>
          ${actions.map(
            (action) =>
              html`<label
                ><input
                  type="checkbox"
                  name="only"
                  value="${action}"
                  ${(given === undefined || given.getAll("only").includes(action)) && html`checked`}
                />
                <span class="${action}">${amount(action, counts.users[action] + counts.groups[action])}</span>
                <span aria-hidden="true">${action}d</span></label
              >`,
          )}
        </fieldset>
        ${
          known.length > 0 &&
          html`<fieldset>
            <legend>Leave out what these causes change</legend>
            ${known.map((cause) => causeBox(cause, given?.getAll("exceptCause").includes(cause.id) === true))}
          </fieldset>`
        }
        <label
          >Leave out these users and groups
          <textarea
            name="exceptNames"
            rows="4"
            spellcheck="false"
            aria-describedby="except-help"
            ${problem !== undefined && html`aria-invalid="true" autofocus`}
          >
${exactValue((given?.get("exceptNames") ?? "").replaceAll("\r\n", "\n"))}</textarea>
          ${problem !== undefined && html`<small class="bad" role="alert">${capitalized(problem)}</small>`}
          <small id="except-help">A name on each line; <code>group:Sales</code> for a group.</small></label
        >
        <p class="buttons"><button type="submit">See what that applies</button> ${back(id)}</p>
      </form>
    </section>`;
}

function causeBox(cause: Cause, isTicked: boolean): Html {
  return html`<label
    ><input type="checkbox" name="exceptCause" value="${cause.id}" ${isTicked && html`checked`} /> ${amountOf(cause)}:
    ${describeCause(cause)}</label
  >`;
}

export function reject({ now, run, token }: DecisionPage): Html {
  const { id, sync, counts } = run;
  return html`${heading(run, now)}
    <section class="decision">
      <h2>Reject this plan?</h2>
      <p>
        ${counts !== undefined && html`<b>${capitalized(verdictOnPlan(run))}</b>: none of that happens.`} The next run
        of ${name(sync)} plans again.
      </p>
      <form method="post" action="${at("/runs", id, "reject")}">
        ${token}
        <label>Reason <input name="reason" maxlength="2000" autocomplete="off" required /></label>
        <p class="buttons"><button type="submit" class="danger">Reject</button> ${back(id)}</p>
      </form>
    </section>`;
}

export function undo({ now, run, token }: DecisionPage): Html {
  const { id, counts } = run;
  return html`${heading(run, now)}
    <section class="decision">
      <h2>Undo this run?</h2>
      <p>
        ${counts !== undefined && html`It applied <b>${totalsOf(counts)}</b>.`} A new run plans how to reverse that, and
        what later runs did to the same users and groups. Its plan waits for approval: nothing is changed yet.
      </p>
      <form method="post" action="${at("/runs", id, "undo")}">
        ${token}
        <p class="buttons">
          <button type="submit">Plan the undo</button>
          <a class="button secondary" href="${at("/runs", id)}">Back to the run</a>
        </p>
      </form>
    </section>`;
}

export interface ConflictPage {
  /** In epoch milliseconds. */
  readonly now: number;
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
        ${last === undefined ? html`It is ${stateOf(run)}.` : html`It was ${decisionWords(last)}, ${when(last.at, now)}.`}
      </p>
      <p class="quiet">${message}</p>`,
    true,
  )}
  ${
    newer === undefined
      ? html`<p><a href="${at("/runs", run.id)}">Look at the run</a></p>`
      : html`<section aria-labelledby="newer">
          <h2 id="newer">The plan that waits now</h2>
          <p>
            ${state(newer.run)} ${verdictOnPlan(newer.run)}.
            <a href="${at("/runs", newer.run.id, "plan")}">Look at this plan</a>
          </p>
          ${newer.differences !== undefined && differences(newer.differences)}
        </section>`
  }`;
}

function differing(title: string, { count, examples }: PlanDifferences["gone"]): Html | false {
  return (
    count > 0 &&
    html`<h3>${title} (${formatNumber(count)})</h3>
      <ul>
        ${examples.map(({ action, kind, name: called }) => html`<li><span class="${action}">${action}</span> ${kind} ${name(called)}</li>`)}
        ${count > examples.length && html`<li class="quiet">and ${formatNumber(count - examples.length)} more</li>`}
      </ul>`
  );
}

function differences({ gone, added, other, same }: PlanDifferences): Html {
  return html`<p>
      Compared with the plan that was shown, ${pluralize(same, "change is the same", "changes are the same")}.
    </p>
    ${differing("No longer planned", gone)} ${differing("Planned now, and not shown", added)}
    ${differing("Planned otherwise", other)}`;
}
