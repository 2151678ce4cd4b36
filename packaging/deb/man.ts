import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { commandNames } from "#cli/program.ts";
import { helpOf } from "../../docs/generate/commands.ts";

/** Writes the manual: a page for the program and one for each command, from the help that they print. */
export async function writeManual(folder: string, version: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const name of ["", ...commandNames]) {
    const page = ["rollcall", ...(name === "" ? [] : [name])];
    const text = manual(page, await helpOf(name === "" ? [] : [name]), version);
    writeFileSync(join(folder, `${page.join("-")}.1.gz`), gzipSync(text, { level: 9 }));
  }
}

function manual(page: readonly string[], help: string, version: string): string {
  const [usage = "", ...rest] = help.trimEnd().split("\n");
  const end = rest.findIndex((line) => /^[A-Z].*:$/.test(line));
  const description = rest.slice(0, end).join(" ").trim();
  const lines = [
    `.TH ${page.join("-").toUpperCase()} 1 "" "Rollcall ${version}" "Rollcall"`,
    ".SH NAME",
    `${escaped(page.join("-"))} \\- ${escaped(description.replace(/\.$/, ""))}`,
    ".SH SYNOPSIS",
    `.B ${escaped(usage.replace(/^Usage: /, ""))}`,
  ];
  for (const line of rest.slice(end)) {
    const heading = /^([A-Z].*):$/.exec(line)?.[1];
    if (heading !== undefined)
      lines.push(...(lines.includes(".nf") ? [".fi"] : []), `.SH ${heading.toUpperCase()}`, ".nf");
    else lines.push(escaped(line));
  }
  const others = page.length === 1 ? commandNames.map((name) => `rollcall-${name}`) : ["rollcall"];
  lines.push(".fi", ".SH SEE ALSO", others.map((name) => `.BR ${escaped(name)} (1)`).join(" ,\n"));
  return `${lines.join("\n")}\n`;
}

/** Text of roff: a hyphen that is typed, no escapes, and no line that begins like a request. */
function escaped(text: string): string {
  const plain = text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("`", "\\(ga");
  return /^[.']/.test(plain) ? `\\&${plain}` : plain;
}
