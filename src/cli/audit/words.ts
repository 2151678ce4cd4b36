import type { Counts, KindCounts } from "#plan/change.ts";
import { number, visible } from "#text.ts";
import type { Sealed } from "#sync/audit/chain.ts";
import type { AuditEntry } from "#sync/audit/entry.ts";
import type { Verification } from "#sync/audit/verify.ts";
import type { Selection } from "#plan/selection.ts";
import type { Actor } from "#sync/record.ts";

/** An entry of the audit file for a person: a line, and what belongs to it indented below. */
export function describeEntry({ sequence, at, event, facts }: Sealed): string {
  const [first, ...rest] = wordsOf({ event, ...facts } as AuditEntry);
  const time = `${at.slice(0, 19).replace("T", " ")}Z`;
  const by = "by" in facts ? ` ${actor(facts["by"] as Actor)}:` : "";
  return [`${sequence}  ${time} ${by} ${first ?? event}`, ...rest.map((line) => `      ${line}`)]
    .map((line) => `${visible(line)}\n`)
    .join("");
}

/** A break for a person. */
export function oneLine({ file, line, what, reason }: NonNullable<Verification["broken"]>): string {
  return `${file}, line ${line} (${what}): ${reason}`;
}

function actor({ name, from }: Actor): string {
  return name === "rollcall" ? `rollcall (${from})` : `${name} from ${from}`;
}

function wordsOf(entry: AuditEntry): readonly string[] {
  switch (entry.event) {
    case "asked":
      return [`asked for run ${entry.run} of ${entry.sync}`, ...digest(entry.digest)];
    case "approved":
      return [
        `approved run ${entry.run} of ${entry.sync}`,
        ...digest(entry.digest),
        ...list("passing over", entry.overrides),
        ...selection(entry.selection),
        ...reason(entry.reason),
      ];
    case "rejected":
      return [`rejected run ${entry.run} of ${entry.sync}`, ...digest(entry.digest), ...reason(entry.reason)];
    case "overridden":
      return [
        `let run ${entry.run} of ${entry.sync} pass over limits`,
        ...digest(entry.digest),
        ...list("passing over", entry.overrides),
      ];
    case "undone":
      return [`asked for the way back to what was before run ${entry.undoes} of ${entry.sync}: run ${entry.run}`];
    case "ended":
      return [
        `run ${entry.run} of ${entry.sync} ended: ${entry.result}${entry.heldBy === undefined ? "" : ` by ${entry.heldBy}`}`,
        ...digest(entry.digest),
        ...(entry.counts === undefined ? [] : [counts(entry.counts)]),
        ...list("waiting because of limits", entry.waiting),
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
          ? `configuration ${entry.file}, with nothing to compare it with`
          : `another configuration: ${entry.file}`,
        ...digest(entry.digest),
        ...entry.differences,
      ];
    case "started":
      return [`started the daemon (process ${entry.process})`];
    case "stopped":
      return [`stopped the daemon (process ${entry.process}): ${entry.reason}`];
    case "journal damaged":
      return ["the journal was damaged, and was put aside", ...reason(entry.reason), `kept as ${entry.kept}`];
    case "audit torn":
      return [`line ${entry.line} was not written to its end, and was cut off`, `kept as ${entry.kept}`];
    case "audit damaged":
      return [
        `the audit file is damaged: ${entry.what}${entry.line === undefined ? "" : `, line ${entry.line}`}`,
        entry.reason,
        ...(entry.kept === undefined ? [] : [`kept as ${entry.kept}; good up to entry ${entry.lastGood.sequence}`]),
      ];
    default: {
      // Of a newer Rollcall.
      const { event, ...facts } = entry as { event: string };
      return [event, JSON.stringify(facts)];
    }
  }
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

function selection({ only, except }: Selection = {}): string[] {
  return [
    ...list("only", only),
    ...list(
      "all but",
      except?.map(({ kind, name }) => `${kind} ${name}`),
    ),
  ];
}

function counts({ users, groups, membershipsAdded, membershipsRemoved }: Counts): string {
  const memberships = `memberships: ${number(membershipsAdded)} added, ${number(membershipsRemoved)} removed`;
  return [`users: ${kindCounts(users)}`, `groups: ${kindCounts(groups)}`, memberships].join("; ");
}

function kindCounts({ create, update, delete: gone }: KindCounts): string {
  return `${number(create)} created, ${number(update)} changed, ${number(gone)} deleted`;
}
