import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { localActor } from "#daemon/context.ts";
import { command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import { configurationDigest } from "#control/presence.ts";
import { findDaemon } from "#control/client.ts";
import type { FoundDaemon } from "#control/client.ts";
import { errorDocument } from "#errors.ts";
import { isAlive } from "#files/durable.ts";
import { heldNamesIn } from "#plan/limits.ts";
import { leavingWords, waitingWords } from "#plan/render/shared.ts";
import { painter } from "#plan/render/text.ts";
import { approvalsWords } from "#sync/coordinator/approvals.ts";
import { limitsLeftOut, limitsToOverride } from "#sync/coordinator/refusals.ts";
import { verdictOnPlan } from "#sync/verdict.ts";
import { isOpen, standingsOf, stateName } from "#state/record.ts";
import type { Standing, SyncStatus } from "#state/record.ts";
import type { KnownJournal } from "#state/store.ts";
import { pluralize, timesInARow } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { readPresence } from "#daemon/data-folder.ts";
import { writeTable } from "./format.ts";
import { exactly, forCaller, relatively } from "#times.ts";
import { describeError, exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { stateOf, tones, toneStyles } from "#state/run-text.ts";
import { inboxLines, statusOfInboxes } from "./inbox.ts";
import { knownJournal } from "./known-runs.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command), { examples: ["rollcall status", "rollcall status --json"] }).action((options: CommonOptions) =>
    runner.runWithContext(options, status),
  );
}

/**
 * `rollcall status`: on one screen whether the service and the daemon run, how each sync stands, and what waits for a
 * person. Only reads. With `--json`:
 * `{"daemon": {"pid", "url", "version", "startedAt", "configuration"} | null, "service": {"pid", "url", "startedAt"} | null, "syncs": [SyncStatus with "lastRun" and "waiting"], "inboxes": [InboxStatus]}`.
 */
export async function status(context: Context): Promise<ExitCode> {
  const { configuration, interruption, output } = context;
  const { data } = configuration;
  let problem: unknown;
  const daemon = await findDaemon(data, localActor().name, interruption.stop).catch((error: unknown) => {
    problem = error;
    return undefined;
  });
  const presence = await readPresence(data);
  const service = presence !== undefined && isAlive(presence.pid) ? presence : undefined;
  const syncs = await standings(context, daemon);
  const inboxes = await statusOfInboxes(context);
  if (output.json) {
    const { connection, status } = daemon ?? {};
    const document = {
      daemon: status === undefined ? null : { url: connection?.presence.url, ...status, syncs: undefined },
      ...(problem === undefined ? {} : { error: errorDocument(problem) }),
      service: service === undefined ? null : { pid: service.pid, url: service.url, startedAt: service.startedAt },
      syncs,
      ...(inboxes.length > 0 && { inboxes }),
    };
    await output.write(`${JSON.stringify(document, undefined, 2)}\n`);
    return exitCodes.done;
  }
  const now = Date.now();
  const paint = painter(output.colour);
  const since = (iso: string): string => `since ${exactly(iso)}, ${relatively(iso, now)}`;
  const processes = [
    daemon === undefined
      ? `daemon   ${problem === undefined ? paint("yellow", `not running: nothing is synced by schedule until \`${command("start")}\``) : paint("red", describeError(problem))}`
      : `daemon   ${paint("green", "running")} ${since(daemon.status.startedAt)} (process ${daemon.status.pid}, ${daemon.connection.presence.url})`,
    ...(configuration.service === undefined
      ? []
      : [
          service === undefined
            ? `service  ${paint("yellow", "not running")}`
            : `service  ${paint("green", "running")} ${since(service.startedAt)} (process ${service.pid}, ${service.url})`,
        ]),
  ];
  await output.write(forCaller(`${processes.join("\n")}\n`));
  for (const inbox of inboxes) await output.write(forCaller(`${inboxLines(inbox, now).join("\n         ")}\n`));
  if (syncs.length === 0) return exitCodes.done;
  if (daemon !== undefined && isOther(configuration, daemon))
    await output.write(
      forCaller(
        `${paint("yellow", `the daemon runs with another configuration than ${configuration.file} has now`)}; ` +
          `\`${command("reload")}\` reloads ${daemon.status.configuration.file}\n`,
      ),
    );
  const rows = syncs.map((sync) => rowOf(sync, daemon !== undefined, now));
  await output.write("\n");
  await writeTable(output, columns, rows, {
    flexible: [0, 1],
    expendable: [1, 3],
    paint: (text, column, row) => {
      const lastRun = syncs[rows.indexOf(row as string[])]?.lastRun;
      const tone = column === 2 && lastRun !== undefined ? tones[stateName(lastRun)] : undefined;
      return tone === undefined ? text : paint(toneStyles[tone], text);
    },
  });
  const attention = syncs.flatMap((sync) => attentionLines(sync, now));
  if (attention.length > 0) await output.write(forCaller(`\n${attention.join("\n")}\n`));
  return exitCodes.done;
}

function isOther(configuration: Configuration, { connection, status }: FoundDaemon): boolean {
  const { token } = connection.presence;
  return token !== "" && status.configuration.digest !== configurationDigest(configuration, token);
}

/** How the syncs stand: by the daemon, or by the journal where none runs. */
async function standings(context: Context, daemon: FoundDaemon | undefined): Promise<Standing[]> {
  const { configuration } = context;
  const journal = await knownJournal(context);
  return standingsOf(daemon?.status.syncs ?? statusesByJournal(configuration, journal), journal.runs);
}

function statusesByJournal(configuration: Configuration, { runs, syncs }: KnownJournal): SyncStatus[] {
  return Object.entries(configuration.syncs).map(([sync, { to, schedule }]) =>
    Object.assign({ skipped: [] }, syncs[sync], {
      sync,
      target: to,
      schedule,
      running: runs.find((run) => run.sync === sync && run.state === "running")?.id,
      pending: runs.find((run) => run.sync === sync && isOpen(run))?.id,
      overdue: syncs[sync]?.overdueSince !== undefined,
    }),
  );
}

const columns = ["sync", "target", "last run", "last success", "next run"] as const;

function rowOf({ sync, target, ...rest }: Standing, hasDaemon: boolean, now: number): string[] {
  const { schedule, nextSlotAt, running, lastRun, lastSuccessAt } = rest;
  const next = hasDaemon ? "" : "not without the daemon";
  return [
    sync,
    target,
    lastRun === undefined
      ? "none yet"
      : `${stateOf(lastRun)}, ${relatively(lastRun.endedAt ?? lastRun.startedAt, now)}`,
    lastSuccessAt === undefined ? "never" : relatively(lastSuccessAt, now),
    running === undefined
      ? schedule === undefined
        ? "on demand"
        : nextSlotAt === undefined
          ? next
          : relatively(nextSlotAt, now)
      : "running now",
  ];
}

/** What a person should know or do about a sync. */
function attentionLines(standing: Standing, now: number): string[] {
  const { sync, waiting, lastRun, failures, caution, overdue, lastSuccessAt, scheduleProblem } = standing;
  const lines: string[] = [];
  if (scheduleProblem !== undefined) lines.push(`${sync}: ${scheduleProblem}`);
  for (const run of waiting) {
    const { id, state, counts, expiresAt } = run;
    const what = counts === undefined ? "" : `: ${verdictOnPlan(run)}`;
    const until = expiresAt === undefined ? "" : ` (expires ${relatively(expiresAt, now)})`;
    const beyond = limitsToOverride(run);
    lines.push(
      `${sync}: run ${id} ${state === "held" ? `is ${stateOf(run)}` : "waits for approval"}${approvalsWords(run) === undefined ? "" : ` (${approvalsWords(run)})`}${what}${until}`,
      `  ${command("show", id)}`,
      `  ${command("approve", id, ...(beyond.length === 0 ? [] : ["--override", beyond.join(",")]))}`,
    );
  }
  if (failures !== undefined)
    lines.push(
      `${sync}: failed ${timesInARow(failures.count)}, ${failures.count > 1 ? "first " : ""}at ${exactly(failures.since)}`,
    );
  if (lastRun?.error !== undefined && !waiting.includes(lastRun))
    lines.push(`${sync}: ${lastRun.error.message}`, `  ${command("show", lastRun.id)}`);
  if (overdue)
    lines.push(
      `${sync}: overdue; ${lastSuccessAt === undefined ? "no run has ever succeeded" : `the last success was ${relatively(lastSuccessAt, now)}`}`,
    );
  if (lastRun !== undefined && lastRun.waiting.length > 0 && !isOpen(lastRun))
    lines.push(
      `${sync}: ${waitingWords(lastRun.waiting)}`,
      `  ${command("plan", sync, "--override", limitsLeftOut(lastRun).join(","))}`,
    );
  if (caution !== undefined) lines.push(`${sync}: every run needs approval until one is approved: ${caution.reason}`);
  if (lastRun?.leaving !== undefined && !waiting.includes(lastRun))
    lines.push(`${sync}: ${leavingWords(lastRun.leaving)}`);
  if (lastRun === undefined) return lines;
  const { id, quarantined = 0, limits } = lastRun;
  const held = heldNamesIn(limits);
  if (quarantined > 0)
    lines.push(`${sync}: ${pluralize(quarantined, "record")} quarantined (\`${command("show", id)}\`)`);
  if (held > 0)
    lines.push(
      `${sync}: ${pluralize(held, "name")} held, since records were renamed or have another's name (\`${command("show", id)}\`)`,
    );
  return lines;
}
