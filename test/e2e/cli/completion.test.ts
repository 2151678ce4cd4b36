import { execFile } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) => `${yaml}    approval: required\n`);
const main = new URL("../../../bin/rollcall.js", import.meta.url).pathname;

/** What `rollcall complete` suggests for the last of these words. */
async function suggested(...words: readonly string[]): Promise<string[]> {
  const { stdout } = await rollcall(["complete", "--", ...words], { cwd: company.folder });
  return stdout
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith(":"))
    .map((line) => line.split("\t", 1)[0] ?? "");
}

test("commands, options, their values, syncs, files, and runs are completed; for approve, those that wait", async () => {
  expect(await suggested("sta")).toEqual(["start", "status", "state"]);
  expect(await suggested("plan", "--over")).toEqual(["--override"]);
  expect(await suggested("show", "latest", "--format", "h")).toEqual(["html"]);
  expect(await suggested("explain", "ada", "--sync", "")).toEqual(["staff"]);
  expect(await suggested("plan", "-c", "r")).toEqual(["rollcall.yaml"]);
  expect(await suggested("show", "")).toEqual([]);
  expect((await company.command("apply")).code).toBe(3);
  expect(await suggested("plan", "s")).toEqual(["staff"]);
  const [id = "", ...others] = await suggested("approve", "");
  expect(others).toEqual([]);
  expect((await company.command("reject", id)).code).toBe(0);
  expect(await suggested("approve", "")).toEqual([]);
  expect(await suggested("show", "2")).toEqual([id]);
  await company.write("rollcall.yaml", "syncs: [");
  expect(await suggested("plan", "")).toEqual([]);
});

test("in bash, with nothing but bash; what stands in the line is not run", async () => {
  const bin = join(company.folder, "bin");
  await mkdir(bin);
  await writeFile(join(bin, "rollcall"), `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`);
  await chmod(join(bin, "rollcall"), 0o755);
  const script = `
    set -u
    for i in 1 2; do eval "$(rollcall completion bash)"; done
    try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rollcall; echo "\${COMPREPLY[@]-}"; }
    try rollcall statu
    try rollcall plan -c rol
    try rollcall plan '$(touch ran)' ''
    try rollcall export --to b`;
  const { stdout, stderr } = await promisify(execFile)("bash", ["--norc", "-c", script], {
    cwd: company.folder,
    env: { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"]}` },
  });
  expect(stderr).toBe("");
  expect(stdout).toBe("status\nrollcall.yaml\n\nbin/\n");
  const { stdout: files } = await promisify(execFile)("ls", [company.folder]);
  expect(files).not.toContain("ran");
});

test.each(["zsh", "fish", "powershell"])("a script for %s", async (shell) => {
  const { code, stdout } = await rollcall(["completion", shell], { cwd: company.folder });
  expect(code).toBe(0);
  expect(stdout).toMatch(/rollcall.* complete/);
});

test("another shell is refused with those there are", async () => {
  const { code, stderr } = await rollcall(["completion", "tcsh"], { cwd: company.folder });
  expect(code).toBe(1);
  expect(stderr).toContain("Allowed choices are zsh, bash, fish, powershell");
});
