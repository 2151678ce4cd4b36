import { Option } from "commander";
import type { Command } from "commander";
import { common, help, allSyncs, reportFormats, listOfWords } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { chosenSyncs } from "#daemon/context.ts";
import { incidentNames } from "#sync/drill/names.ts";
import { changes } from "#plan/change.ts";
import { code } from "#plan/render/markdown.ts";
import { isEmpty, totalsOf } from "#plan/render/shared.ts";
import { painter } from "#plan/render/text.ts";
import { drill } from "#sync/drill/drill.ts";
import type { Drill } from "#sync/drill/drill.ts";
import type { Finding, Verdict } from "#sync/drill/judge.ts";
import type { IncidentName } from "#sync/drill/names.ts";
import { formatSizes, pluralize, visible } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { exactly } from "#times.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { compilerOf, syncOf } from "#daemon/wiring.ts";
import { eachSync, failuresTo, withSync } from "./syncs.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("[sync]", allSyncs)
    .option("--only <incidents>", "only these incidents, like half-ou,stale-export", parseIncidents)
    .addOption(new Option("--format <format>", "the output format (default: text)").choices(reportFormats))
    .option("--markdown", "the same as --format markdown");
  help(command, {
    examples: [
      "rollcall drill",
      "rollcall drill staff --only half-ou,stale-export",
      "rollcall drill --format markdown",
    ],
    exits: { 0: "every incident would be stopped or noticed", 2: "an incident would not be stopped" },
  }).action((sync: string | undefined, options: CommonOptions & DrillOptions) =>
    runner.runWithContext(options, (context) => drillCommand(context, sync, options)),
  );
}

/** `half-ou,stale-export` */
const parseIncidents = listOfWords(incidentNames, (text) => text);

export interface DrillOptions {
  readonly only?: readonly IncidentName[] | undefined;
  readonly format?: (typeof reportFormats)[number] | undefined;
  readonly markdown?: boolean | undefined;
}

/**
 * `rollcall drill [sync]`: rehearses incidents on copies, and says for each what would have stopped it; changes nothing. With
 * `--json`: `{"drills": [Drill | {"sync", "error"}]}`. Exit code 2 when something would not have been stopped.
 */
export async function drillCommand(
  context: Context,
  name: string | undefined,
  { only, markdown = false, ...options }: DrillOptions,
): Promise<ExitCode> {
  const { configuration, output } = context;
  const format = markdown ? "markdown" : (options.format ?? (output.json ? "json" : "text"));
  const documents: object[] = [];
  const failed = failuresTo(output, format === "json" ? documents : undefined);
  const worst = await eachSync(context, chosenSyncs(configuration, name), failed, async (sync) => {
    const drilled = await drillSync(context, sync, only);
    if (format === "json") documents.push(drilled);
    else await output.write(format === "markdown" ? markdownOf(drilled) : textOf(context, drilled));
    return drilled.findings.some(({ verdict }) => verdict === "passed") ? exitCodes.changes : exitCodes.done;
  });
  if (format === "json") await output.write(`${JSON.stringify({ drills: documents })}\n`, "json");
  return worst;
}

async function drillSync(context: Context, name: string, only: DrillOptions["only"]): Promise<Drill> {
  const { configuration, output } = context;
  const configured = syncOf(configuration, name);
  const { rules, approval } = configured;
  const compile = await compilerOf(configuration, configured);
  return withSync(context, name, (sync, { state, memory, interruption, warn }) =>
    drill(sync, {
      rules,
      compile,
      approval,
      only,
      files: state.files,
      memory,
      interruption,
      warn,
      begin: (title) => {
        output.progress(`${name}: ${title} …`);
      },
    }),
  );
}

const verdicts: Readonly<Record<Verdict, string>> = {
  passed: "would pass",
  noticed: "noticed afterwards",
  stopped: "stopped",
  harmless: "harmless",
  skipped: "skipped",
};

/** `14 incidents: 1 would pass, 12 stopped, 1 skipped` */
function summary({ findings }: Drill): string {
  const parts = (Object.keys(verdicts) as Verdict[]).flatMap((verdict) => {
    const count = findings.filter((finding) => finding.verdict === verdict).length;
    return count === 0 ? [] : [`${count} ${verdicts[verdict]}`];
  });
  return `${pluralize(findings.length, "incident")}: ${parts.join(", ")}`;
}

/** What they were rehearsed with. */
function basis({ users, groups, readAt, today }: Drill): string[] {
  const pending = isEmpty(today)
    ? []
    : [`a run would change something today: ${totalsOf(today)}. The incidents happen after that`];
  return [
    `rehearsed with ${formatSizes(users, groups)}, read ${exactly(readAt)}; nothing was written or sent`,
    ...pending,
  ];
}

/** What would have been changed. */
function planOf({ counts }: Finding): string | undefined {
  return counts === undefined || changes(counts) === 0 ? undefined : totalsOf(counts);
}

/** What stopped it, or that nothing did, a line each. */
function outcomeOf({ verdict, because, counts, changed, advice }: Finding): readonly string[] {
  if (verdict === "passed") {
    const what = counts === undefined ? pluralize(changed, "change") : totalsOf(counts);
    return [`nothing would have stopped it: ${what}`, ...because, ...(advice === undefined ? [] : [advice])];
  }
  if (verdict === "noticed") return [`noticed after ${pluralize(changed, "change")}`, ...because];
  return verdict === "harmless" ? ["there is nothing to change"] : because;
}

function textOf({ output }: Context, found: Drill): string {
  const paint = painter(output.colour);
  const lines = [paint("bold", visible(`${found.sync} → ${found.target}`)), ...basis(found).map((line) => `  ${line}`)];
  for (const finding of found.findings) {
    const { verdict, title, injected } = finding;
    const word = verdict === "passed" ? paint("bold", "WOULD PASS") : verdicts[verdict];
    lines.push("", `${word}: ${title}`);
    if (injected !== undefined) lines.push(`  what happens: ${visible(injected)}`);
    const plan = planOf(finding);
    if (plan !== undefined && verdict !== "passed") lines.push(`  the plan:     ${plan}`);
    for (const line of outcomeOf(finding)) lines.push(`  ${visible(line)}`);
  }
  return `${[...lines, "", summary(found)].join("\n")}\n`;
}

/** Foreign text in a cell of a table, where a bar would end it. */
function cell(text: string): string {
  return code(text).replaceAll("|", String.raw`\|`);
}

function markdownOf(found: Drill): string {
  const rows = found.findings.map((finding) => {
    const { title, injected, verdict, changed } = finding;
    const word = verdict === "passed" ? "**would pass**" : verdicts[verdict];
    const plan = planOf(finding);
    const cells = [
      title,
      injected === undefined ? "" : cell(injected),
      plan ?? "",
      word,
      outcomeOf(finding).map(cell).join("<br>"),
      verdict === "skipped" ? "" : String(changed),
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [
    `## ${code(`${found.sync} → ${found.target}`)}`,
    "",
    ...basis(found).map((line) => `- ${line}`),
    `- ${summary(found)}`,
    "",
    "| incident | what happens | the plan | verdict | why | changed by then |",
    "|---|---|---|---|---|--:|",
    ...rows,
    "",
    "",
  ].join("\n");
}
