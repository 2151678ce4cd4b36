import { commandNames, runProgram } from "#cli/program.ts";

const introduction = `# Command reference

The help of every command (\`npm run docs\`). From a checkout, write \`npm run rollcall -- COMMAND\`.

Every command takes \`--config FILE\`; the default is \`$ROLLCALL_CONFIG\`, else \`rollcall.yaml\`, else
\`config/rollcall.yaml\`, else \`/etc/rollcall/rollcall.yaml\`. With \`--json\`, standard output is one JSON document.

| exit code | meaning |
| --- | --- |
| 0 | done, or nothing to do |
| 1 | failed |
| 2 | there is something to look at (\`plan\`, \`drift\`, \`drill\`, \`unmanaged\`) |
| 3 | held by a limit, waiting for approval, or stopped because the result would not be what was shown |

Each command's help lists its own. \`--config\`, \`--json\`, \`--verbose\` and \`--no-color\` may also precede the command:
\`rollcall --config other.yaml plan\`.

The first Ctrl-C stops a run before anything is applied. A run that is being applied is finished and verified; a second Ctrl-C
abandons it, and the service has then made all of the changes or none. A command that is still running ten seconds later kills
itself (SIGKILL).
`;

/** The reference of the command line as Markdown, from the help that it prints. */
export async function commandReference(): Promise<string> {
  const parts = [introduction, "## `rollcall`", "", ...block(await helpOf([]))];
  for (const name of [...commandNames, "completion"]) parts.push(...(await commandSection([name])));
  return `${parts.join("\n")}\n`;
}

async function commandSection(path: readonly string[]): Promise<string[]> {
  const text = await helpOf(path);
  const lines = [`${"#".repeat(path.length + 1)} \`rollcall ${path.join(" ")}\``, "", ...block(text)];
  for (const name of subcommands(text)) lines.push(...(await commandSection([...path, name])));
  return lines;
}

function block(text: string): string[] {
  return ["```text", text.trimEnd(), "```", ""];
}

function subcommands(text: string): string[] {
  const section = /^Commands:\n(?<list>(?: {2}.*\n?)*)/m.exec(text)?.groups?.["list"] ?? "";
  return [...section.matchAll(/^ {2}(?<name>[a-z]+)/gm)].flatMap(({ groups }) =>
    groups?.["name"] === undefined || groups["name"] === "help" ? [] : [groups["name"]],
  );
}

/** What a command prints for `--help`: nothing is run, so that nothing of what the program is composed of is needed. */
export async function helpOf(path: readonly string[]): Promise<string> {
  const write = process.stdout.write.bind(process.stdout);
  let text = "";
  process.stdout.write = (piece: string | Uint8Array): boolean => {
    text += String(piece);
    return true;
  };
  try {
    await runProgram(["node", "rollcall", ...path, "--help"], {
      version: "",
      connectors: [],
      loadConnector: unused,
      targetConnectors: [],
      loadTargetConnector: unused,
      readTable: unused,
      loadInboxRoutes: unused,
      copyEngine: unused,
      startService: unused,
    });
  } finally {
    process.stdout.write = write;
  }
  return text;
}

function unused(): never {
  throw new Error("the help of a command runs nothing");
}
