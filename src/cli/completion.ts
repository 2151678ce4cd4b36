import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import type { Complete } from "@bomb.sh/tab";
import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import { parse } from "yaml";
import { z } from "zod";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { visible } from "#text.ts";
import { help } from "./flags.ts";

/** Where the configuration is, with this value of `--config`. */
type FindConfiguration = (config: string | undefined) => string;

/**
 * Adds `rollcall completion SHELL`, which prints a script for the shell, and the hidden `rollcall complete`, which that
 * script calls at every tab: it completes commands, options and their values, syncs, runs and files.
 * @param words what the process was called with; the last one is to be completed
 */
export function addCompletion(program: Command, words: readonly string[], find: FindConfiguration): void {
  const root = tab(program, { completionCommandName: "completion" });
  const description = "print the script that completes commands, options, syncs and runs in a shell";
  const completion = program.commands.find((command) => command.name() === "completion");
  if (completion !== undefined)
    help(completion.description(description), {
      examples: [
        "rollcall completion bash >> ~/.bashrc",
        "rollcall completion fish > ~/.config/fish/completions/rollcall.fish",
      ],
    }).action((shell: string) => {
      if (shell === "bash") process.stdout.write(bashScript);
      else root.setup("rollcall", "rollcall", shell);
    });
  const own = root.commands.get("completion");
  if (own !== undefined) own.description = description;
  const completeSyncs = (complete: Complete): void => {
    for (const name of Object.keys(configurationOf(words, find).syncs)) complete(name, "");
  };
  const completeRuns = (complete: Complete, openOnly: boolean): void => {
    for (const run of runsOf(words, find)) if (!openOnly || isOpen(run)) complete(run.id, `${run.sync}, ${run.state}`);
  };
  const files = (complete: Complete): void => {
    completeFiles(complete, words);
  };
  for (const [name, { arguments: places, options }] of root.commands) {
    const handlers: Readonly<Record<string, (complete: Complete) => void>> = {
      sync: completeSyncs,
      run: (complete) => {
        completeRuns(complete, name === "approve" || name === "reject");
      },
      file: files,
      ...Object.fromEntries(fileOptions.map((option) => [option, files])),
    };
    for (const [place, argument] of places) if (place in handlers) argument.handler = orNothing(handlers[place]);
    for (const [option, value] of options) {
      const handler = handlers[option];
      if (value.isBoolean !== true && handler !== undefined) value.handler = orNothing(handler);
    }
  }
}

/** The library's script for bash needs the package bash-completion, and runs what stands in the line at every tab. */
const bashScript = String.raw`# completes rollcall in bash
_rollcall() {
  local value
  COMPREPLY=()
  while IFS=$'\t' read -r value _; do
    [[ $value == :* ]] || COMPREPLY+=("$value")
  done < <(rollcall complete -- "${"$"}{COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ ${"$"}{#COMPREPLY[@]} == 1 && $COMPREPLY == */ ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o nosort -F _rollcall rollcall 2>/dev/null || complete -F _rollcall rollcall
`;

/** The options whose value is a file or a folder. */
const fileOptions = ["config", "compare", "output", "to", "users", "groups"];

/** At a tab, nobody wants to read what is wrong with a configuration. */
function orNothing(handler: ((complete: Complete) => void) | undefined): (complete: Complete) => void {
  return (complete) => {
    try {
      handler?.(complete);
    } catch {
      // Nothing is completed.
    }
  };
}

const parts = z.object({
  syncs: z
    .record(z.string(), z.unknown())
    .nullish()
    .transform((syncs) => syncs ?? {}),
  service: z.object({ data: z.string().optional() }).nullish(),
  daemon: z.object({ data: z.string().optional() }).nullish(),
});

/** As much of the configuration as a completion needs: read fast, without its secrets. */
function configurationOf(
  words: readonly string[],
  find: FindConfiguration,
): z.infer<typeof parts> & { readonly file: string } {
  const at = words.findLastIndex((word) => word === "-c" || word === "--config");
  const given =
    at < 0 ? words.findLast((word) => word.startsWith("--config="))?.slice("--config=".length) : words[at + 1];
  const file = resolve(find(given));
  return { file, ...parts.parse(parse(readFileSync(file, "utf8"))) };
}

/** The newest first. */
function runsOf(words: readonly string[], find: FindConfiguration): readonly RunRecord[] {
  const { file, service, daemon } = configurationOf(words, find);
  const data = resolve(dirname(file), service?.data ?? daemon?.data ?? "data");
  const { runs } = JSON.parse(readFileSync(resolve(data, "daemon", "journal.json"), "utf8")) as {
    readonly runs: readonly RunRecord[];
  };
  return runs.toReversed();
}

/** Files and folders that begin like the last word. */
function completeFiles(complete: Complete, words: readonly string[]): void {
  const word = (words.at(-1) ?? "").replace(/^--[\w-]+=/, "");
  const folder = word.slice(0, word.length - basename(word).length);
  const start = word.endsWith("/") ? word : folder;
  for (const entry of readdirSync(start === "" ? "." : start, { withFileTypes: true })) {
    const name = `${start}${entry.name}${entry.isDirectory() ? "/" : ""}`;
    if (name.startsWith(word) && visible(name) === name) complete(name, "");
  }
}
