import { isEmpty, leavingWords, totalsOf } from "#plan/render/shared.ts";
import type { Actor } from "#state/record.ts";
import { selectionWords, stateOf } from "#state/run-text.ts";
import { pluralize } from "#text.ts";
import type { Sealed } from "./chain.ts";
import type { AuditEntry } from "./entry.ts";
import type { Verification } from "./verify.ts";

/** Who did what an entry is about; absent for what opening the log finds wrong with it. */
export function actorOf({ facts: { by } }: Pick<Sealed, "facts">): Actor | undefined {
  if (typeof by !== "object" || by === null || !("name" in by) || !("from" in by)) return undefined;
  const { via, id, token } = by as Partial<Actor>;
  return { name: String(by.name), from: String(by.from), via, id, token };
}

/** A break in the chain, for a person. */
export function breakWords({ file, line, what, reason }: NonNullable<Verification["broken"]>): string {
  return `${file}, line ${line} (${what}): ${reason}`;
}

/** What was checked, and what came of it: a sentence. @param from the first entry that counts */
export function verdictWords({ entries, files, damages, broken }: Verification, from = 1): string {
  const what = `${pluralize(entries, "entry", "entries")} in ${pluralize(files.length, "file")}`;
  if (broken !== undefined) return `BROKEN: ${breakWords(broken)}`;
  if (damages.length > 0) return `${what} form an unbroken chain, but something was lost before:`;
  return `${what}: everything is as it was written${from > 1 ? ` from entry ${from} on` : ""}.`;
}

/** An entry for a person: what happened, followed by its details, a line each. */
export function entryWords({ event, facts }: Pick<Sealed, "event" | "facts">): readonly string[] {
  // A newer Rollcall may have written others.
  const entry = { event, ...facts } as AuditEntry;
  switch (entry.event) {
    case "asked":
      return [`requested run ${entry.run} of ${entry.sync}`, ...list("only for", entry.for), ...digest(entry.digest)];
    case "approved":
      return [
        `approved run ${entry.run} of ${entry.sync}${entry.needed === undefined ? "" : ` (${entry.nth} of ${entry.needed} people)`}`,
        ...digest(entry.digest),
        ...list("limits ignored", entry.overrides),
        ...selectionWords(entry.selection),
        ...reason(entry.reason),
      ];
    case "rejected":
      return [`rejected run ${entry.run} of ${entry.sync}`, ...digest(entry.digest), ...reason(entry.reason)];
    case "overridden":
      return [
        `overrode limits for run ${entry.run} of ${entry.sync}`,
        ...digest(entry.digest),
        ...list("limits ignored", entry.overrides),
      ];
    case "undone":
      return [`requested the undo of run ${entry.undoes} of ${entry.sync}: run ${entry.run}`];
    case "ended":
      return [
        `run ${entry.run} of ${entry.sync} ended: ${stateOf({ state: entry.result, heldBy: entry.heldBy, cancelled: entry.cancelled })}`,
        ...digest(entry.digest),
        ...outcome(entry),
        ...list("held by limits", entry.waiting),
        ...reason(entry.error),
      ];
    case "recovered":
      return [
        `run ${entry.run} of ${entry.sync}, whose process had been killed: ${entry.result}`,
        ...digest(entry.digest),
        ...reason(entry.finding),
      ];
    case "configuration":
      return [
        entry.before === undefined
          ? `configuration ${entry.file}, with no earlier one to compare`
          : `changed configuration: ${entry.file}`,
        ...digest(entry.digest),
        ...entry.differences,
      ];
    case "signed in":
      return ["signed in"];
    case "sign-in blocked":
      return [`was refused for ${pluralize(entry.seconds, "second")}: too many wrong passwords`];
    case "account":
      return [accountWords(entry)];
    case "token":
      return [`${entry.change} the access token ${entry.token} of ${entry.account}`];
    case "inbox token":
      return [`${entry.change} the token ${entry.token} of the inbox ${entry.source}`];
    case "started":
      return [`started the daemon (process ${entry.process})`];
    case "stopped":
      return [`stopped the daemon (process ${entry.process}): ${entry.reason}`];
    case "journal damaged":
      return ["the journal was damaged, and was moved aside", ...reason(entry.reason), `stored as ${entry.kept}`];
    case "audit torn":
      return [`line ${entry.line} was incomplete, and was cut off`, `stored as ${entry.kept}`];
    case "audit damaged":
      return [
        `the audit log is damaged: ${entry.what}${entry.line === undefined ? "" : `, line ${entry.line}`}`,
        entry.reason,
        ...(entry.kept === undefined ? [] : [`stored as ${entry.kept}; intact up to entry ${entry.lastGood.sequence}`]),
      ];
    default: {
      // Written by a newer Rollcall.
      const { event, ...facts } = entry as { event: string };
      return [event, JSON.stringify(facts)];
    }
  }
}

function accountWords({ change, account, role }: Extract<AuditEntry, { event: "account" }>): string {
  if (change === "role") return `gave the account ${account} the role ${role}`;
  if (change === "password") return `changed the password of the account ${account}`;
  return `${change} the account ${account}${role === undefined ? "" : `, with the role ${role}`}`;
}

function digest(value: string | undefined): string[] {
  return value === undefined ? [] : [`digest ${value}`];
}

function reason(text: string | undefined): string[] {
  return text === undefined ? [] : [text];
}

function list(title: string, values: readonly string[] | undefined): string[] {
  return values === undefined || values.length === 0 ? [] : [`${title}: ${values.join(", ")}`];
}

/** What a run has done, or had only planned: a run that was held has deleted nobody. */
function outcome({ result, counts, leaving, heldBy }: Extract<AuditEntry, { event: "ended" }>): string[] {
  const isApplied = result === "applied" || heldBy === "verification";
  const departing = leaving === undefined ? [] : [leavingWords(leaving, result === "held")];
  if (counts === undefined || isEmpty(counts)) return departing;
  return [`${isApplied ? "applied" : "planned, not applied"}: ${totalsOf(counts)}`, ...departing];
}
